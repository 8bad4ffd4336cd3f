package lakedex.jvm;

import java.util.ArrayDeque;
import java.util.Arrays;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.ScalarSubquery;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;

/**
 * The node above a scan of ours in a physical plan; its metrics show how much was pruned.
 *
 * It passes on the rows of the scan, without a task of its own.
 */
public final class LakeScanExec extends SparkPlan {

  private static final String EXECUTION = "spark.sql.execution.id";

  private final SparkPlan child;
  private final @SEQ@ dynamicFilters;
  private final MergedScan merged;
  /** Not the node itself: Spark locks that while it waits for subqueries, which show the plan. */
  private final transient Object lock = new Object();
  private transient scala.collection.immutable.Map shown;
  private transient String reported;

  /**
   * A node over a scan.
   *
   * The dynamic filters of its joins are members of this node, so that Spark computes the keys
   * before it is run. A scan by our own reader comes with its description.
   */
  public LakeScanExec(SparkPlan child, @SEQ@ dynamicFilters, MergedScan merged) {
    this.child = child;
    this.dynamicFilters = dynamicFilters;
    this.merged = merged;
  }

  public String nodeName() {
    return "lakedex files";
  }

  public String argString(int most) {
    String[] numbers = numbers(merged == null ? "" : merged.counts());
    return numbers == null ? ""
        : "reads " + numbers[Contract.READ_FILES] + " of " + numbers[Contract.ALL_FILES];
  }

  public scala.collection.immutable.Map metrics() {
    synchronized (lock) {
      if (shown == null) {
        SQLMetrics$ made = SQLMetrics$.MODULE$;
        scala.collection.immutable.Map empty = scala.collection.immutable.Map$.MODULE$.empty();
        shown = with(empty, "files", made.createMetric(sparkContext(), "files of the table"));
        shown = with(shown, "pruned", made.createMetric(sparkContext(), "files pruned"));
        shown = with(
            shown, "bytes", made.createSizeMetric(sparkContext(), "size of files pruned", -1L));
      }
      return shown;
    }
  }

  /** Values that a plan shows are computed now: later that would need the lock of this node. */
  public void doPrepare() {
    metrics();
    subqueries();
    schema();
  }

  private static scala.collection.immutable.Map with(
      scala.collection.immutable.Map known, String name, SQLMetric metric) {
    return (scala.collection.immutable.Map) known.updated(name, metric);
  }

  /** Spark calls this before it runs a plan, also one that it ran before and whose RDDs it kept. */
  public void resetMetrics() {
    super.resetMetrics();
    check();
    if (reported != null) {
      report();
    }
  }

  public RDD doExecute() {
    return run(false);
  }

  public RDD doExecuteColumnar() {
    return run(true);
  }

  private RDD run(boolean columnar) {
    awaitValues(nativeScan() == null ? child.expressions() : nativeScan().expressions());
    SparkPlan scan = child;
    if (merged != null && !dynamicFilters.isEmpty()) {
      scan = merged.again(child, JoinValues.arrived(dynamicFilters));
    }
    LakeFileIndex.setFilters(filters());
    try {
      RDD rows = columnar ? scan.executeColumnar() : scan.execute();
      report();
      return rows;
    } finally {
      LakeFileIndex.setFilters(null);
    }
  }

  /** Wait for the values of subqueries in the filters of a scan; Spark runs each of them once. */
  private static void awaitValues(@SEQ@ expressions) {
    ArrayDeque open = new ArrayDeque();
    open.push(expressions.iterator());
    while (!open.isEmpty()) {
      scala.collection.Iterator each = (scala.collection.Iterator) open.peek();
      if (!each.hasNext()) {
        open.pop();
        continue;
      }
      Expression expression = (Expression) each.next();
      if (expression instanceof ScalarSubquery) {
        ((ScalarSubquery) expression).updateResult();
      }
      open.push(expression.children().iterator());
    }
  }

  /** All filters of a scan of base files as they are known now, or nothing. */
  private String filters() {
    FileSourceScanExec scan = nativeScan();
    if (scan == null) {
      return null;
    }
    scala.collection.Seq own = Lists.joined(scan.partitionFilters(), scan.dataFilters());
    return FilterText.describe(Lists.joined(own, JoinValues.arrived(dynamicFilters)));
  }

  /**
   * Lists the files that the scan reads, as far as its filters are known; no job is run.
   *
   * A scan lists its files once and keeps them, so this asks the file index instead.
   */
  void list() {
    if (merged != null) {
      merged.list(JoinValues.arrived(dynamicFilters));
      return;
    }
    LakeFileIndex.setFilters(filters());
    try {
      index().listFiles(null, null);
    } finally {
      LakeFileIndex.setFilters(null);
    }
  }

  private LakeFileIndex index() {
    return (LakeFileIndex) nativeScan().relation().location();
  }

  /** The scan of base files below, which Spark may have put into compiled code; null for ours. */
  private FileSourceScanExec nativeScan() {
    SparkPlan below = child;
    while (!below.children().isEmpty()) {
      below = (SparkPlan) below.children().apply(0);
    }
    return below instanceof FileSourceScanExec ? (FileSourceScanExec) below : null;
  }

  /** A plan may be run long after it was made, when files of its snapshot were cleaned. */
  private void check() {
    if (nativeScan() != null) {
      index().check(filters());
    }
  }

  /** Posts the metrics to the running execution, once, because it adds them up. */
  private void report() {
    synchronized (lock) {
      reportOnce();
    }
  }

  private void reportOnce() {
    String execution = sparkContext().getLocalProperty(EXECUTION);
    if (execution == null || execution.equals(reported)) {
      return;
    }
    String counts = merged == null ? "" : merged.counts();
    if (nativeScan() != null) {
      counts = index().counts(filters());
    }
    String[] numbers = numbers(counts);
    if (numbers == null) {
      return;
    }
    long[] values = new long[numbers.length];
    for (int i = 0; i < values.length; i++) {
      values[i] = Long.parseLong(numbers[i]);
    }
    longMetric("files").set(values[Contract.ALL_FILES]);
    longMetric("pruned").set(values[Contract.ALL_FILES] - values[Contract.READ_FILES]);
    longMetric("bytes").set(values[Contract.ALL_BYTES] - values[Contract.READ_BYTES]);
    Object[] all = new Object[] {longMetric("files"), longMetric("pruned"), longMetric("bytes")};
    reported = execution;
    SQLMetrics$.MODULE$.postDriverMetricUpdates(
        sparkContext(), execution, (@SEQ@) Lists.scala(Arrays.asList(all)));
  }

  /** The counts of a text; null if there are none. */
  private static String[] numbers(String counts) {
    String[] numbers = counts.split(Contract.NUMBER_SEPARATOR);
    return numbers.length == Contract.COUNT_OF_COUNTS ? numbers : null;
  }

  /** Some tasks serialise their nodes, and executors do not have this class. */
  public Object writeReplace() {
    return child;
  }

  public boolean supportsColumnar() {
    return child.supportsColumnar();
  }

  public scala.Option vectorTypes() {
    return child.vectorTypes();
  }

  public @SEQ@ output() {
    return child.output();
  }

  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  public @SEQ@ outputOrdering() {
    return child.outputOrdering();
  }

  public @SEQ@ children() {
    return Lists.scala(Arrays.asList(new Object[] {child}));
  }

  public TreeNode withNewChildrenInternal(@INDEXED_SEQ@ children) {
    return new LakeScanExec((SparkPlan) children.apply(0), dynamicFilters, merged);
  }

  public @SEQ@ otherCopyArgs() {
    return Lists.scala(Arrays.asList(new Object[] {merged}));
  }

  public int productArity() {
    return 2;
  }

  public Object productElement(int n) {
    return n == 0 ? (Object) child : (Object) dynamicFilters;
  }

  public boolean canEqual(Object other) {
    return other instanceof LakeScanExec;
  }

  public boolean equals(Object other) {
    return other instanceof LakeScanExec
        && ((LakeScanExec) other).child.equals(child)
        && ((LakeScanExec) other).dynamicFilters.equals(dynamicFilters);
  }

  public int hashCode() {
    return 31 * child.hashCode() + dynamicFilters.hashCode();
  }
}
