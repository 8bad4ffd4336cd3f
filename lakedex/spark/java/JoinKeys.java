package lakedex.jvm;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Adds dynamic pruning filters to joins: the keys of one side prune the files of the scan of ours on
 * the other side.
 *
 * The filters are Spark's own `DynamicPruningSubquery`, so Spark finds the keys as it does for the
 * partitions of its own tables: from a broadcast that the join needs anyhow, or by a query of their
 * own where that is cheap (`JoinSides`). Keys may be of any column, as all indexes are consulted.
 * The join itself drops rows without a partner; no row is checked twice.
 */
final class JoinKeys extends scala.runtime.AbstractPartialFunction {

  private static final int MOST_PUSHES = 8;
  private static final PartitionPruning$ SPARK = PartitionPruning$.MODULE$;

  private final Set made = new HashSet();

  private JoinKeys() {}

  /** A plan of pinned relations, with a dynamic filter over each scan that can use one. */
  static LogicalPlan withFilters(LogicalPlan plan) {
    if (!SQLConf.get().dynamicPartitionPruningEnabled() || plan.isStreaming()) {
      return plan;
    }
    JoinKeys keys = new JoinKeys();
    LogicalPlan filtered = (LogicalPlan) plan.transformUp(keys);
    if (keys.made.isEmpty()) {
      return plan;
    }
    for (int i = 0; i < MOST_PUSHES; i++) {
      LogicalPlan pushed = PushDownPredicates$.MODULE$.apply(filtered);
      if (pushed.fastEquals(filtered)) {
        break;
      }
      filtered = pushed;
    }
    // A filter that was not pushed down to a scan of ours would cost and not help.
    return (LogicalPlan) filtered.transformUp(new Without(keys.made, null));
  }

  /** A scan without its dynamic filters, which are added to a list. */
  static LogicalPlan withoutFilters(LogicalPlan scan, List removed) {
    return (LogicalPlan) scan.transformUp(new Without(null, removed));
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof Join && ((Join) node).condition().isDefined();
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    return isDefinedAt(node) ? join((Join) node) : otherwise.apply(node);
  }

  private LogicalPlan join(Join join) {
    scala.Option found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (found.isEmpty()) {
      return join;
    }
    scala.Tuple8 parts = (scala.Tuple8) found.get();
    JoinType type = join.joinType();
    scala.collection.Seq left = (scala.collection.Seq) parts._2();
    scala.collection.Seq right = (scala.collection.Seq) parts._3();
    LogicalPlan newLeft = join.left();
    LogicalPlan newRight = join.right();
    if (SPARK.canPruneLeft(type)) {
      newLeft = filtered(join.left(), left, join.right(), right);
    }
    // Both at once would make each side wait for the other.
    if (newLeft == join.left() && SPARK.canPruneRight(type)) {
      newRight = filtered(join.right(), right, join.left(), left);
    }
    if (newLeft == join.left() && newRight == join.right()) {
      return join;
    }
    return new Join(newLeft, newRight, type, join.condition(), join.hint());
  }

  private LogicalPlan filtered(
      LogicalPlan side, scala.collection.Seq keys,
      LogicalPlan other, scala.collection.Seq otherKeys) {
    LogicalPlan filtered = side;
    for (int i = 0; i < keys.size(); i++) {
      String source = JoinSides.keySource((Expression) keys.apply(i), side, other);
      if (source.equals(Contract.KEYS_UNUSED)) {
        continue;
      }
      ExprId id = NamedExpression$.MODULE$.newExprId();
      made.add(id);
      boolean onlyInBroadcast = source.equals(Contract.KEYS_BROADCAST);
      Expression among =
          among((Expression) keys.apply(i), other, otherKeys, i, onlyInBroadcast, id);
      filtered = new Filter(among, filtered);
    }
    return filtered;
  }

  /** Releases differ in how they refer to the key, and in the optional members. */
  private static Expression among(
      Expression key, LogicalPlan other, scala.collection.Seq otherKeys, int at,
      boolean onlyInBroadcast, ExprId id) {
    Constructor maker = DynamicPruningSubquery.class.getConstructors()[0];
    Class[] types = maker.getParameterTypes();
    Object[] given = new Object[types.length];
    Arrays.fill(given, scala.Option.empty());
    given[0] = key;
    given[1] = other;
    given[2] = otherKeys;
    given[3] = types[3] == Integer.TYPE
        ? (Object) Integer.valueOf(at)
        : Lists.scala(Arrays.asList(new Object[] {Integer.valueOf(at)}));
    given[4] = Boolean.valueOf(onlyInBroadcast);
    given[5] = id;
    try {
      return (Expression) maker.newInstance(given);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Removes dynamic filters: those of some joins that are above no scan of ours, or all. */
  public static final class Without extends scala.runtime.AbstractPartialFunction {

    private final Set some;
    private final List removed;

    public Without(Set some, List removed) {
      this.some = some;
      this.removed = removed;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Filter;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? filter((Filter) node) : otherwise.apply(node);
    }

    private LogicalPlan filter(Filter filter) {
      LogicalRelation scan = scanBelow(filter);
      Expression left = null;
      boolean isWhole = true;
      scala.collection.Iterator each =
          SPARK.splitConjunctivePredicates(filter.condition()).iterator();
      while (each.hasNext()) {
        Expression part = (Expression) each.next();
        if (isRemoved(part, scan)) {
          isWhole = false;
        } else {
          left = left == null ? part : new And(left, part);
        }
      }
      if (isWhole) {
        return filter;
      }
      return left == null ? filter.child() : new Filter(left, filter.child());
    }

    private boolean isRemoved(Expression part, LogicalRelation scan) {
      if (!(part instanceof DynamicPruningSubquery)) {
        return false;
      }
      boolean isOnScan = scan != null && part.references().subsetOf(scan.outputSet());
      if (removed == null) {
        return some.contains(((DynamicPruningSubquery) part).exprId()) && !isOnScan;
      }
      if (isOnScan) {
        removed.add(part);
      }
      return true;
    }

    private static LogicalRelation scanBelow(LogicalPlan plan) {
      LogicalPlan below = plan;
      while (below instanceof Project || below instanceof Filter) {
        below = (LogicalPlan) below.children().apply(0);
      }
      boolean isOurs = below instanceof LogicalRelation
          && PinnedRelations.isOurs(((LogicalRelation) below).relation());
      return isOurs ? (LogicalRelation) below : null;
    }
  }
}
