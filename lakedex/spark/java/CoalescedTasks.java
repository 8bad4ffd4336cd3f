package lakedex.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.Partition;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionGroup;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.JavaConverters;

/**
 * Runs neighbouring partitions of a DataFrame in one task, in their order.
 *
 * `Dataset.coalesce` groups partitions by their hosts and mixes ranges. How many tasks there are is
 * decided when the size of the rows is known: adaptive execution plans again after each exchange,
 * with the size that was written.
 */
public final class CoalescedTasks {

  private static final String SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes";

  private CoalescedTasks() {}

  /** The same rows, in tasks of the size that the session advises, but not fewer than `fewest`. */
  public static @DATASET@ over(@DATASET@ rows, int fewest) {
    @SESSION@ session = (@SESSION@) rows.sparkSession();
    install(session);
    String advised = session.sessionState().conf().getConfString(SIZE, "64MB");
    long bytesPerTask = Math.max(1L, JavaUtils.byteStringAsBytes(advised));
    return @DATASET@$.MODULE$.ofRows(session, new Node(rows.logicalPlan(), fewest, bytesPerTask));
  }

  private static void install(@SESSION@ session) {
    List strategies = new ArrayList();
    scala.collection.Iterator each = session.experimental().extraStrategies().iterator();
    while (each.hasNext()) {
      Object strategy = each.next();
      if (strategy instanceof Strategy) {
        return;
      }
      strategies.add(strategy);
    }
    strategies.add(new Strategy());
    session.experimental().extraStrategies_$eq((@SEQ@) Lists.scala(strategies));
  }

  /** The logical node. */
  public static final class Node extends LogicalPlan {

    private final LogicalPlan child;
    private final int fewest;
    private final long bytesPerTask;

    public Node(LogicalPlan child, int fewest, long bytesPerTask) {
      this.child = child;
      this.fewest = fewest;
      this.bytesPerTask = bytesPerTask;
    }

    public String nodeName() {
      return "lakedex tasks";
    }

    public @SEQ@ children() {
      return Lists.scala(Arrays.asList(new Object[] {child}));
    }

    public @SEQ@ output() {
      return child.output();
    }

    public TreeNode withNewChildrenInternal(@INDEXED_SEQ@ children) {
      return new Node((LogicalPlan) children.apply(0), fewest, bytesPerTask);
    }

    public int productArity() {
      return 3;
    }

    public Object productElement(int n) {
      return n == 0 ? (Object) child
          : n == 1 ? (Object) Integer.valueOf(fewest) : (Object) Long.valueOf(bytesPerTask);
    }

    public boolean canEqual(Object other) {
      return other instanceof Node;
    }

    public boolean equals(Object other) {
      return other instanceof Node && ((Node) other).child.equals(child)
          && ((Node) other).fewest == fewest && ((Node) other).bytesPerTask == bytesPerTask;
    }

    public int hashCode() {
      return child.hashCode() + fewest;
    }
  }

  /** Plans the logical node, with the statistics that there are by then. */
  public static final class Strategy extends SparkStrategy {

    public @SEQ@ apply(LogicalPlan plan) {
      List planned = new ArrayList();
      if (plan instanceof Node) {
        Node node = (Node) plan;
        scala.math.BigInt bytes = node.child.stats().sizeInBytes().min(inputs(node.child));
        scala.math.BigInt perTask = scala.math.BigInt.apply(node.bytesPerTask);
        scala.math.BigInt tasks = bytes.$div(perTask).$plus(scala.math.BigInt.apply(1));
        // A size that is not known counts as more than any number of partitions.
        int wanted = tasks.isValidInt() ? Math.max(tasks.intValue(), node.fewest) : Integer.MAX_VALUE;
        planned.add(new Exec((SparkPlan) planLater(node.child), wanted));
      }
      return Lists.scala(planned);
    }

    /** The size of all inputs: Spark estimates a join as the product of both sides. */
    private static scala.math.BigInt inputs(LogicalPlan plan) {
      scala.math.BigInt sum = scala.math.BigInt.apply(0);
      scala.collection.Iterator each = plan.collectLeaves().iterator();
      while (each.hasNext()) {
        sum = sum.$plus(((LogicalPlan) each.next()).stats().sizeInBytes());
      }
      return sum;
    }
  }

  /** The physical node. */
  public static final class Exec extends SparkPlan {

    private final SparkPlan child;
    private final int tasks;

    public Exec(SparkPlan child, int tasks) {
      this.child = child;
      this.tasks = tasks;
    }

    public String nodeName() {
      return "lakedex tasks";
    }

    public RDD doExecute() {
      RDD rows = child.execute();
      if (rows.getNumPartitions() <= tasks) {
        return rows;
      }
      return rows.coalesce(tasks, false, scala.Option.apply(new Neighbours()), null);
    }

    /** Some tasks serialise their nodes, and executors do not have this class. */
    public Object writeReplace() {
      return child;
    }

    public @SEQ@ output() {
      return child.output();
    }

    public Partitioning outputPartitioning() {
      return new UnknownPartitioning(0);
    }

    public @SEQ@ children() {
      return Lists.scala(Arrays.asList(new Object[] {child}));
    }

    public TreeNode withNewChildrenInternal(@INDEXED_SEQ@ children) {
      return new Exec((SparkPlan) children.apply(0), tasks);
    }

    public int productArity() {
      return 2;
    }

    public Object productElement(int n) {
      return n == 0 ? (Object) child : (Object) Integer.valueOf(tasks);
    }

    public boolean canEqual(Object other) {
      return other instanceof Exec;
    }

    public boolean equals(Object other) {
      return other instanceof Exec && ((Exec) other).child.equals(child)
          && ((Exec) other).tasks == tasks;
    }

    public int hashCode() {
      return 31 * child.hashCode() + tasks;
    }
  }

  /** Groups partitions that follow each other, about as many in each group. */
  public static final class Neighbours implements PartitionCoalescer, @SERIALIZABLE@ {

    public PartitionGroup[] coalesce(int groups, RDD rows) {
      Partition[] partitions = rows.partitions();
      int count = Math.min(groups, partitions.length);
      PartitionGroup[] made = new PartitionGroup[count];
      for (int i = 0; i < count; i++) {
        made[i] = new PartitionGroup(scala.Option.empty());
        List members =
            (List) JavaConverters.bufferAsJavaListConverter(made[i].partitions()).asJava();
        int start = (int) ((long) i * partitions.length / count);
        int stop = (int) ((long) (i + 1) * partitions.length / count);
        for (int at = start; at < stop; at++) {
          members.add(partitions[at]);
        }
      }
      return made;
    }

    /** Executors get the groups that were made, and do not have this class. */
    public Object writeReplace() {
      return "";
    }
  }
}
