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
 * What stands over a scan of ours in a plan, and shows how much of the table it does not read.
 *
 * It hands on what the scan gives, without a task of its own.
 */
public final class LakeScanExec extends SparkPlan {

  private static final String EXECUTION = "spark.sql.execution.id";

  private final SparkPlan child;
  private final String counts;
  private transient scala.collection.immutable.Map shown;
  private transient String reported;

  /** The counts are empty where the scan has yet to list its files. */
  public LakeScanExec(SparkPlan child, String counts) {
    this.child = child;
    this.counts = counts;
  }

  public String nodeName() {
    return "lakedex files";
  }

  public String argString(int most) {
    String[] numbers = counts.split(" ");
    return numbers.length == 4 ? "reads " + numbers[2] + " of " + numbers[0] : "";
  }

  public synchronized scala.collection.immutable.Map metrics() {
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
    awaitValues(child.expressions());
    LakeFileIndex.tell(child instanceof FileSourceScanExec ? (FileSourceScanExec) child : null);
    try {
      RDD rows = columnar ? child.executeColumnar() : child.execute();
      report();
      return rows;
    } finally {
      LakeFileIndex.tell(null);
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

  /** A plan may be run long after it was made, when files of its snapshot were cleaned. */
  private void check() {
    if (child instanceof FileSourceScanExec) {
      FileSourceScanExec scan = (FileSourceScanExec) child;
      LakeFileIndex index = (LakeFileIndex) scan.relation().location();
      index.check(scan.partitionFilters(), scan.dataFilters());
    }
  }

  /** Tell the execution that runs; it adds up what it is told, so it is told once. */
  private synchronized void report() {
    String execution = sparkContext().getLocalProperty(EXECUTION);
    if (execution == null || execution.equals(reported)) {
      return;
    }
    String told = counts;
    if (child instanceof FileSourceScanExec) {
      FileSourceScanExec scan = (FileSourceScanExec) child;
      LakeFileIndex index = (LakeFileIndex) scan.relation().location();
      told = index.counts(scan.partitionFilters(), scan.dataFilters());
    }
    String[] numbers = told.split(" ");
    if (numbers.length != 4) {
      return;
    }
    long[] values = new long[4];
    for (int i = 0; i < 4; i++) {
      values[i] = Long.parseLong(numbers[i]);
    }
    longMetric("files").set(values[0]);
    longMetric("pruned").set(values[0] - values[2]);
    longMetric("bytes").set(values[1] - values[3]);
    Object[] all = new Object[] {longMetric("files"), longMetric("pruned"), longMetric("bytes")};
    reported = execution;
    SQLMetrics$.MODULE$.postDriverMetricUpdates(
        sparkContext(), execution, (@SEQ@) Lists.scala(Arrays.asList(all)));
  }

  /** Nodes travel with some tasks, to executors that do not know this one. */
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
    return new LakeScanExec((SparkPlan) children.apply(0), counts);
  }

  public int productArity() {
    return 2;
  }

  public Object productElement(int n) {
    return n == 0 ? (Object) child : (Object) counts;
  }

  public boolean canEqual(Object other) {
    return other instanceof LakeScanExec;
  }

  public boolean equals(Object other) {
    return other instanceof LakeScanExec && ((LakeScanExec) other).child.equals(child);
  }

  public int hashCode() {
    return 31 * child.hashCode() + 7;
  }
}
