package lakedex.jvm;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Resolves names in the subqueries of a statement's conditions and values.
 *
 * The statement is run piece by piece, so each subquery gets the WITH clauses of the statement, and
 * the tables that are named by their paths.
 */
public final class Subqueries extends scala.runtime.AbstractPartialFunction {

  private final String session;
  private final List layers;

  private Subqueries(String session, List layers) {
    this.session = session;
    this.layers = layers;
  }

  /** A statement with its subqueries under these WITHs, the outer one first. */
  public static LogicalPlan scoped(String session, LogicalPlan statement, List layers) {
    return (LogicalPlan) statement.transformExpressionsUp(new Subqueries(session, layers));
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof PlanExpression && ((PlanExpression) node).plan() instanceof LogicalPlan;
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    PlanExpression subquery = (PlanExpression) node;
    LogicalPlan plan = StatementParser.bound(session, (LogicalPlan) subquery.plan(), true);
    for (int i = layers.size() - 1; i >= 0; i--) {
      scala.collection.immutable.IndexedSeq child =
          (scala.collection.immutable.IndexedSeq)
              Lists.scala(Arrays.asList(new Object[] {plan})).toIndexedSeq();
      plan = (LogicalPlan) ((LogicalPlan) layers.get(i)).withNewChildren(child);
    }
    return subquery.withNewPlan(plan);
  }
}
