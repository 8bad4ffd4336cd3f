package lakedex.jvm;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.ScalarSubquery;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A list of Catalyst filters as one JSON text, so that Python gets them in a single call.
 *
 * The text is {"nodes": [...], "roots": [...], "legacy_times": ...}. Nodes stand after their
 * children and refer to them by position, so neither side needs recursion. A root is the position of
 * one conjunct, or the reason why it was left out; `legacy_times` is whether the session formats and
 * parses times by the rules of Spark 2. The names are those of `Contract`; members of a node, each
 * only where it has a meaning:
 *
 *   k  the class of the expression        t  its type, as Spark writes it
 *   c  the positions of its children      n  a name: of a column, a field, a function
 *   v  the value of a constant            s  the values of a list; null is SQL's null
 *   z  the time zone                      m  LEGACY, ANSI or TRY
 *   b  its switches, in order             e  the escape character of LIKE
 *   u  1 where a value has no text form
 *
 * Dates are days, timestamps microseconds, floats the exact double, binary hexadecimal. The source
 * is compiled by Janino for Scala 2.12 and 2.13, so it is plain Java without generics.
 */
public final class FilterText {

  private static final int MOST_NODES = 50000;
  private static final int MOST_CHARACTERS = 8000000;
  private static final char[] HEX = "0123456789abcdef".toCharArray();

  private final StringBuilder nodes = new StringBuilder();
  private int count = 0;
  private int firstCount = 0;
  private int firstLength = 0;

  public FilterText() {}

  /** The text of all filters; they are joined by AND. */
  public static String describe(scala.collection.Seq filters) {
    return new FilterText().all(filters);
  }

  private String all(scala.collection.Seq filters) {
    StringBuilder roots = new StringBuilder();
    scala.collection.Iterator each = filters.iterator();
    while (each.hasNext()) {
      List parts = operands((Expression) each.next(), And.class);
      for (int i = 0; i < parts.size(); i++) {
        roots.append(roots.length() == 0 ? "" : ",");
        root((Expression) parts.get(i), roots);
      }
    }
    return "{\"" + Contract.FILTER_NODES + "\":[" + nodes + "],\"" + Contract.FILTER_ROOTS + "\":["
        + roots + "],\"" + Contract.FILTER_LEGACY_TIMES + "\":" + legacyTimes() + "}";
  }

  private static boolean legacyTimes() {
    String policy = SQLConf.get().getConfString("spark.sql.legacy.timeParserPolicy", "CORRECTED");
    return "LEGACY".equalsIgnoreCase(policy);
  }

  private void root(Expression part, StringBuilder roots) {
    firstLength = nodes.length();
    firstCount = count;
    String problem = null;
    int position = -1;
    try {
      position = walk(part);
      if (position < 0) {
        problem = "a filter that is too large";
      }
    } catch (RuntimeException error) {
      problem = "a filter that cannot be read: " + simpleName(error.getClass());
    } catch (StackOverflowError error) {
      problem = "a filter that is nested too deeply";
    }
    if (problem == null) {
      roots.append(position);
    } else {
      nodes.setLength(firstLength);
      count = firstCount;
      quote(problem, roots);
    }
  }

  /** Writes a tree, children first; returns the position of its top, or -1 when it is too large. */
  private int walk(Expression top) {
    ArrayDeque open = new ArrayDeque();
    open.push(new Frame(top, children(top)));
    int last = -1;
    while (!open.isEmpty()) {
      Frame frame = (Frame) open.peek();
      if (frame.positions.size() < frame.children.size()) {
        Expression child = (Expression) frame.children.get(frame.positions.size());
        open.push(new Frame(child, children(child)));
        continue;
      }
      write(frame.expression, frame.positions);
      if (count - firstCount > MOST_NODES || nodes.length() - firstLength > MOST_CHARACTERS) {
        return -1;
      }
      last = count - 1;
      open.pop();
      if (!open.isEmpty()) {
        ((Frame) open.peek()).positions.add(Integer.valueOf(last));
      }
    }
    return last;
  }

  private static List children(Expression expression) {
    if (scalarValue(expression) != null) {
      return new ArrayList();
    }
    if (expression instanceof And) {
      return operands(expression, And.class);
    }
    if (expression instanceof Or) {
      return operands(expression, Or.class);
    }
    return listed(expression.children().iterator());
  }

  private static List listed(scala.collection.Iterator each) {
    List found = new ArrayList();
    while (each.hasNext()) {
      found.add(each.next());
    }
    return found;
  }

  /** The operands of a chain of AND or OR, left to right; the expression itself if it is neither. */
  private static List operands(Expression top, Class kind) {
    List found = new ArrayList();
    ArrayDeque open = new ArrayDeque();
    open.push(top);
    while (!open.isEmpty()) {
      Expression expression = (Expression) open.pop();
      if (!kind.isInstance(expression)) {
        found.add(expression);
        continue;
      }
      List sides = listed(expression.children().iterator());
      for (int i = sides.size() - 1; i >= 0; i--) {
        open.push(sides.get(i));
      }
    }
    return found;
  }

  private void write(Expression expression, List positions) {
    if (count > 0) {
      nodes.append(',');
    }
    count++;
    nodes.append("{\"").append(Contract.NODE_KIND).append("\":");
    quote(kind(expression), nodes);
    member(Contract.NODE_TYPE);
    quote(typeName(expression.dataType()), nodes);
    if (!positions.isEmpty()) {
      member(Contract.NODE_CHILDREN).append('[');
      for (int i = 0; i < positions.size(); i++) {
        nodes.append(i == 0 ? "" : ",").append(positions.get(i));
      }
      nodes.append(']');
    }
    names(expression);
    values(expression);
    switches(expression);
    nodes.append('}');
  }

  /** Starts another member of a node. */
  private StringBuilder member(String name) {
    return nodes.append(",\"").append(name).append("\":");
  }

  /** A subquery that has its value is a constant, one that has its list is that list. */
  private static String kind(Expression expression) {
    if (scalarValue(expression) != null) {
      return Contract.LITERAL_KIND;
    }
    if (expression instanceof InSubqueryExec && ((InSubqueryExec) expression).values().isDefined()) {
      return Contract.VALUE_LIST_KIND;
    }
    return simpleName(expression.getClass());
  }

  private void names(Expression expression) {
    String name = null;
    if (expression instanceof AttributeReference) {
      name = ((AttributeReference) expression).name();
    } else if (expression instanceof GetStructField) {
      Expression struct = (Expression) expression.children().iterator().next();
      int ordinal = ((GetStructField) expression).ordinal();
      name = ((StructType) struct.dataType()).fields()[ordinal].name();
    } else if (expression instanceof StaticInvoke) {
      StaticInvoke call = (StaticInvoke) expression;
      name = simpleName(call.staticObject()) + "." + call.functionName();
    } else if (expression instanceof Invoke) {
      name = ((Invoke) expression).functionName();
    }
    if (name != null) {
      member(Contract.NODE_NAME);
      quote(name, nodes);
    }
  }

  private void values(Expression expression) {
    Object[] scalar = scalarValue(expression);
    if (scalar != null) {
      single(scalar[0]);
    } else if (expression instanceof Literal) {
      single(((Literal) expression).value());
    } else if (expression instanceof InSet) {
      list(listed(((InSet) expression).hset().iterator()));
    } else if (expression instanceof InSubqueryExec) {
      scala.Option found = ((InSubqueryExec) expression).values();
      if (found.isDefined()) {
        list(Arrays.asList((Object[]) found.get()));
      }
    } else if (expression instanceof Like) {
      member(Contract.NODE_ESCAPE);
      quote(String.valueOf(((Like) expression).escapeChar()), nodes);
    }
  }

  private void single(Object value) {
    String text = valueText(value);
    if (value != null && text == null) {
      member(Contract.NODE_UNREADABLE).append('1');
      return;
    }
    member(Contract.NODE_VALUE);
    nullable(text);
  }

  private void list(List values) {
    boolean readable = true;
    member(Contract.NODE_VALUES).append('[');
    for (int i = 0; i < values.size() && nodes.length() - firstLength <= MOST_CHARACTERS; i++) {
      Object value = values.get(i);
      String text = valueText(value);
      readable = readable && (value == null || text != null);
      nodes.append(i == 0 ? "" : ",");
      nullable(text);
    }
    nodes.append(']');
    if (!readable) {
      member(Contract.NODE_UNREADABLE).append('1');
    }
  }

  private void nullable(String text) {
    if (text == null) {
      nodes.append("null");
    } else {
      quote(text, nodes);
    }
  }

  /** The other members of a case class: its time zone, its mode and its switches. */
  private void switches(Expression expression) {
    if (expression instanceof TimeZoneAwareExpression) {
      scala.Option zone = ((TimeZoneAwareExpression) expression).timeZoneId();
      if (zone.isDefined()) {
        member(Contract.NODE_ZONE);
        quote((String) zone.get(), nodes);
      }
    }
    String mode = mode((scala.Product) expression);
    if (mode != null) {
      member(Contract.NODE_MODE);
      quote(mode, nodes);
    }
    StringBuilder flags = new StringBuilder();
    scala.collection.Iterator each = ((scala.Product) expression).productIterator();
    boolean isLeaf = expression instanceof Literal || expression instanceof AttributeReference;
    while (!isLeaf && each.hasNext()) {
      Object part = each.next();
      if (part instanceof Boolean) {
        flags.append(flags.length() == 0 ? "" : ",").append(part);
      }
    }
    if (flags.length() > 0) {
      member(Contract.NODE_SWITCHES).append('[').append(flags).append(']');
    }
  }

  /** Newer releases keep the mode of arithmetic in an object of its own, one level further down. */
  private static String mode(scala.Product holder) {
    scala.collection.Iterator each = holder.productIterator();
    while (each.hasNext()) {
      Object part = each.next();
      if (part instanceof scala.Enumeration.Value) {
        return part.toString();
      }
      if (part instanceof scala.Product && simpleName(part.getClass()).endsWith("EvalContext")) {
        return mode((scala.Product) part);
      }
    }
    return null;
  }

  /** Spark runs several subqueries of one table at once, and takes their values as fields. */
  private static Object[] scalarValue(Expression expression) {
    Object from = expression instanceof GetStructField ? expression.children().apply(0) : expression;
    try {
      return from instanceof ScalarSubquery ? new Object[] {expression.eval(null)} : null;
    } catch (RuntimeException error) {
      return null;  // It has not run yet.
    }
  }

  /** As `getSimpleName`, which fails for some classes of Scala on old releases of Java. */
  private static String simpleName(Class type) {
    String name = type.getName();
    int end = name.endsWith("$") ? name.length() - 1 : name.length();
    int start = Math.max(name.lastIndexOf('.', end - 1), name.lastIndexOf('$', end - 1));
    return name.substring(start + 1, end);
  }

  private static String typeName(DataType type) {
    if (type instanceof StructType) {
      return "struct";
    }
    return type instanceof ArrayType ? "array" : type instanceof MapType ? "map" : type.simpleString();
  }

  /** The exact text of a value in Spark's internal form; null where there is none. */
  private static String valueText(Object value) {
    if (value instanceof UTF8String) {
      String text = value.toString();
      return UTF8String.fromString(text).equals(value) ? text : null;
    }
    if (value instanceof Decimal) {
      return ((Decimal) value).toJavaBigDecimal().toPlainString();
    }
    if (value instanceof Float || value instanceof Double) {
      return Double.toString(((Number) value).doubleValue());
    }
    if (value instanceof Number || value instanceof Boolean) {
      return value.toString();
    }
    return value instanceof byte[] ? hex((byte[]) value) : null;
  }

  private static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder(2 * bytes.length);
    for (int i = 0; i < bytes.length; i++) {
      text.append(HEX[(bytes[i] >> 4) & 15]).append(HEX[bytes[i] & 15]);
    }
    return text.toString();
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char each = text.charAt(i);
      if (each == '"' || each == '\\') {
        out.append('\\').append(each);
      } else if (each < ' ' || Character.isSurrogate(each) || each == 127) {
        out.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) {
          out.append(HEX[(each >> shift) & 15]);
        }
      } else {
        out.append(each);
      }
    }
    out.append('"');
  }

  /** An expression whose children are being written. */
  private static final class Frame {
    final Expression expression;
    final List children;
    final List positions = new ArrayList();

    Frame(Expression expression, List children) {
      this.expression = expression;
      this.children = children;
    }
  }
}
