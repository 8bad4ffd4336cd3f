package lakedex.jvm;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.Tail;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.BaseRelation;

/**
 * How the keys of one side of a join may reach a scan on the other side.
 *
 * KEYS_BROADCAST: if the join broadcasts that side, which costs nothing more. KEYS_ANY: also by a
 * query of their own, which reads the same rows a second time. KEYS_UNUSED: they cannot help, or that
 * side may give other rows when it is read again.
 */
final class JoinSides {

  private static final PartitionPruning$ SPARK = PartitionPruning$.MODULE$;
  private static final String REUSE_ONLY =
      "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly";

  private JoinSides() {}

  static String keySource(Expression key, LogicalPlan side, LogicalPlan other) {
    scala.Tuple2 origin = origin(key, side);
    if (origin == null || !isRepeatable(other)) {
      return Contract.KEYS_UNUSED;
    }
    List columns = new ArrayList();
    scala.collection.Iterator each = ((Expression) origin._1()).references().iterator();
    while (each.hasNext()) {
      columns.add(((Attribute) each.next()).name());
    }
    BaseRelation relation = ((LogicalRelation) origin._2()).relation();
    return Calls.joinKeys(
        PinnedRelations.session(relation),
        PinnedRelations.pin(relation),
        other.stats().sizeInBytes().toString(),
        leaves(other).toString(),
        isSelective(other),
        isCheap(other) && !reusesOnly(),
        (String[]) columns.toArray(new String[0]));
  }

  /** A key in terms of the table of ours that it comes from, and the relation; null for others. */
  private static scala.Tuple2 origin(Expression key, LogicalPlan side) {
    scala.Option found = SPARK.findExpressionAndTrackLineageDown(key, side);
    if (found.isDefined()) {
      scala.Tuple2 origin = (scala.Tuple2) found.get();
      boolean isOurs = origin._2() instanceof LogicalRelation
          && PinnedRelations.isOurs(((LogicalRelation) origin._2()).relation());
      return isOurs ? origin : null;
    }
    // Spark follows only bare columns into the two halves of a table.
    LogicalPlan below = side;
    while (below instanceof Project || below instanceof Filter) {
      below = (LogicalPlan) below.children().apply(0);
    }
    boolean isHalved = below instanceof Union && key.references().subsetOf(below.outputSet());
    // The columns of a union are those of its first part.
    return isHalved ? origin(key, (LogicalPlan) below.children().apply(0)) : null;
  }

  /** Whether a side has the same rows whenever it is read within a query. */
  private static boolean isRepeatable(LogicalPlan plan) {
    if (!plan.deterministic() || plan.isStreaming()
        || plan.containsPattern(TreePattern.DYNAMIC_PRUNING_SUBQUERY())
        || plan.containsPattern(TreePattern.CTE())) {
      return false;
    }
    boolean chooses = plan instanceof GlobalLimit || plan instanceof LocalLimit
        || plan instanceof Offset || plan instanceof Tail || plan instanceof Sample;
    if (chooses) {
      return false;
    }
    scala.collection.Iterator each = plan.children().iterator();
    while (each.hasNext()) {
      if (!isRepeatable((LogicalPlan) each.next())) {
        return false;
      }
    }
    return true;
  }

  /** By Spark's own rule: there is a condition that leaves rows out. */
  private static boolean isSelective(LogicalPlan plan) {
    if (plan instanceof Filter && SPARK.isLikelySelective(((Filter) plan).condition())) {
      return true;
    }
    scala.collection.Iterator each = plan.children().iterator();
    while (each.hasNext()) {
      if (isSelective((LogicalPlan) each.next())) {
        return true;
      }
    }
    return false;
  }

  /** Whether reading a side a second time is a scan of files and nothing more. */
  private static boolean isCheap(LogicalPlan plan) {
    if (plan.containsPattern(TreePattern.PLAN_EXPRESSION())) {
      return false;
    }
    boolean isLeaf = plan instanceof LocalRelation || plan instanceof Range
        || (plan instanceof LogicalRelation && isFiles(((LogicalRelation) plan).relation()));
    if (isLeaf) {
      return true;
    }
    boolean isDistinct = plan instanceof Aggregate
        && !plan.containsPattern(TreePattern.AGGREGATE_EXPRESSION());
    if (!(plan instanceof Project || plan instanceof Filter || plan instanceof Union
        || isDistinct)) {
      return false;
    }
    scala.collection.Iterator each = plan.children().iterator();
    while (each.hasNext()) {
      if (!isCheap((LogicalPlan) each.next())) {
        return false;
      }
    }
    return true;
  }

  private static boolean isFiles(BaseRelation relation) {
    return relation instanceof HadoopFsRelation || PinnedRelations.isOurs(relation);
  }

  /** The bytes that a side reads. */
  private static scala.math.BigInt leaves(LogicalPlan plan) {
    if (plan.children().isEmpty()) {
      return plan.stats().sizeInBytes();
    }
    scala.math.BigInt sum = scala.math.BigInt.apply(0);
    scala.collection.Iterator each = plan.children().iterator();
    while (each.hasNext()) {
      sum = sum.$plus(leaves((LogicalPlan) each.next()));
    }
    return sum;
  }

  /** Spark's default is to reuse broadcasts only; here it counts only where it was set. */
  private static boolean reusesOnly() {
    SQLConf settings = SQLConf.get();
    return settings.contains(REUSE_ONLY) && settings.dynamicPartitionPruningReuseBroadcastOnly();
  }
}
