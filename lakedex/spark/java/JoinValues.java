package lakedex.jvm;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.types.AtomicType;

/** The values of the dynamic filters of a scan, in a form that costs little to pass on. */
final class JoinValues {

  /** Longer lists become a range, because each value of a list is looked up by itself. */
  private static final int MOST_VALUES = 10000;

  private JoinValues() {}

  /** The values that are known by now; keys that Spark chose not to compute are left out. */
  static scala.collection.Seq arrived(scala.collection.Seq dynamicFilters) {
    List found = new ArrayList();
    scala.collection.Iterator each = dynamicFilters.iterator();
    while (each.hasNext()) {
      Expression part = (Expression) each.next();
      Expression inner = part instanceof DynamicPruningExpression
          ? ((DynamicPruningExpression) part).child() : part;
      if (!(inner instanceof Literal)) {
        found.add(inner instanceof InSubqueryExec ? shortened((InSubqueryExec) inner) : inner);
      }
    }
    return Lists.scala(found);
  }

  private static Expression shortened(InSubqueryExec list) {
    if (list.values().isEmpty() || !(list.child().dataType() instanceof AtomicType)) {
      return list;
    }
    Object[] values = (Object[]) list.values().get();
    if (values.length <= MOST_VALUES) {
      return list;
    }
    scala.math.Ordering order =
        TypeUtils$.MODULE$.getInterpretedOrdering(list.child().dataType());
    Object least = null;
    Object most = null;
    for (int i = 0; i < values.length; i++) {
      if (values[i] == null) {
        continue;  // No row is equal to it.
      }
      least = least == null || order.compare(values[i], least) < 0 ? values[i] : least;
      most = most == null || order.compare(values[i], most) > 0 ? values[i] : most;
    }
    return new And(
        new GreaterThanOrEqual(list.child(), new Literal(least, list.child().dataType())),
        new LessThanOrEqual(list.child(), new Literal(most, list.child().dataType())));
  }
}
