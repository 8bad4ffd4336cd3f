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
 * Lets a scan of ours know the keys of the other side of its join, before it lists its files.
 *
 * It says so with the expression that Spark has for the partitions of its own tables, so that
 * Spark finds the keys as it does there: from a broadcast that the join needs anyhow, or by a query
 * of their own where that is cheap (`JoinSides`). Here the keys may be of any column, since every
 * index is asked. A row without a partner is left out by the join itself; no row is checked twice.
 */
final class JoinKeys extends scala.runtime.AbstractPartialFunction {

  private static final int MOST_PUSHES = 8;
  private static final PartitionPruning$ SPARK = PartitionPruning$.MODULE$;

  private final Set made = new HashSet();

  private JoinKeys() {}

  /** A plan of pinned relations, with what its joins tell their scans. */
  static LogicalPlan told(LogicalPlan plan) {
    if (!SQLConf.get().dynamicPartitionPruningEnabled() || plan.isStreaming()) {
      return plan;
    }
    JoinKeys keys = new JoinKeys();
    LogicalPlan told = (LogicalPlan) plan.transformUp(keys);
    if (keys.made.isEmpty()) {
      return plan;
    }
    for (int i = 0; i < MOST_PUSHES; i++) {
      LogicalPlan pushed = PushDownPredicates$.MODULE$.apply(told);
      if (pushed.fastEquals(told)) {
        break;
      }
      told = pushed;
    }
    // What did not get down to a scan of ours would cost and not help.
    return (LogicalPlan) told.transformUp(new Without(keys.made, null));
  }

  /** A scan without what joins tell it, which is put into a list. */
  static LogicalPlan taken(LogicalPlan scan, List taken) {
    return (LogicalPlan) scan.transformUp(new Without(null, taken));
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
      newLeft = told(join.left(), left, join.right(), right);
    }
    // Both at once would make each side wait for the other.
    if (newLeft == join.left() && SPARK.canPruneRight(type)) {
      newRight = told(join.right(), right, join.left(), left);
    }
    if (newLeft == join.left() && newRight == join.right()) {
      return join;
    }
    return new Join(newLeft, newRight, type, join.condition(), join.hint());
  }

  private LogicalPlan told(
      LogicalPlan side, scala.collection.Seq keys,
      LogicalPlan other, scala.collection.Seq otherKeys) {
    LogicalPlan told = side;
    for (int i = 0; i < keys.size(); i++) {
      String way = JoinSides.way((Expression) keys.apply(i), side, other);
      if (way.equals("no")) {
        continue;
      }
      ExprId id = NamedExpression$.MODULE$.newExprId();
      made.add(id);
      Expression among = among(
          (Expression) keys.apply(i), other, otherKeys, i, way.equals("broadcast"), id);
      told = new Filter(among, told);
    }
    return told;
  }

  /** Releases differ in how they name the key, and in what may be said besides. */
  private static Expression among(
      Expression key, LogicalPlan other, scala.collection.Seq otherKeys, int at,
      boolean onlyInBroadcast, ExprId id) {
    Constructor maker = DynamicPruningSubquery.class.getConstructors()[0];
    Class[] wanted = maker.getParameterTypes();
    Object[] given = new Object[wanted.length];
    Arrays.fill(given, scala.Option.empty());
    given[0] = key;
    given[1] = other;
    given[2] = otherKeys;
    given[3] = wanted[3] == Integer.TYPE
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

  /** Takes what joins tell out of filters: of some joins where no scan of ours hears it, or all. */
  public static final class Without extends scala.runtime.AbstractPartialFunction {

    private final Set some;
    private final List taken;

    public Without(Set some, List taken) {
      this.some = some;
      this.taken = taken;
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
        if (isTaken(part, scan)) {
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

    private boolean isTaken(Expression part, LogicalRelation scan) {
      if (!(part instanceof DynamicPruningSubquery)) {
        return false;
      }
      boolean isHeard = scan != null && part.references().subsetOf(scan.outputSet());
      if (taken == null) {
        return some.contains(((DynamicPruningSubquery) part).exprId()) && !isHeard;
      }
      if (isHeard) {
        taken.add(part);
      }
      return true;
    }

    private static LogicalRelation scanBelow(LogicalPlan plan) {
      LogicalPlan below = plan;
      while (below instanceof Project || below instanceof Filter) {
        below = (LogicalPlan) below.children().apply(0);
      }
      boolean isOurs = below instanceof LogicalRelation
          && LakeRelations.isOurs(((LogicalRelation) below).relation());
      return isOurs ? (LogicalRelation) below : null;
    }
  }
}
