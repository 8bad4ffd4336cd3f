package lakedex.jvm;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.internal.SQLConf;

/**
 * A proxy of a session's parser that passes statements about our tables to Python.
 *
 * Spark's own parser parses. Only statements of the kinds that Python handles are passed on, and
 * texts that Spark cannot parse; a query costs one walk over its unresolved plan.
 */
public final class StatementParser implements InvocationHandler {

  /** The kinds of statements that Python handles, by the names of Spark's classes. */
  private static volatile Set KINDS = new HashSet();

  private static final TreeNodeTag LEFT_TO_SPARK = new TreeNodeTag("lakedex.left_to_spark");

  /** How a thread reads the texts of views: null, or whether index names are resolved. */
  private static final ThreadLocal VIEWS = new ThreadLocal();
  private static final String SEEN = "seen";
  private static final String NAMED = "named";

  private final ParserInterface parser;
  private final String session;

  public StatementParser(ParserInterface parser, String session) {
    this.parser = parser;
    this.session = session;
  }

  /** Puts a proxy before the session's parser, or replaces the one that it has. */
  public static void install(@SESSION@ session, String kinds) throws Exception {
    KINDS = new HashSet(Arrays.asList(kinds.split(Contract.SEPARATOR)));
    Object state = session.sessionState();
    put(state, "sqlParser", session.sessionUUID());
    put(session.sessionState().catalog(), "parser", session.sessionUUID());
  }

  private static void put(Object holder, String name, String session) throws Exception {
    Class kind = holder.getClass();
    Field field = null;
    while (field == null && kind != null) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (fields[i].getName().equals(name)
            || fields[i].getName().endsWith("$$" + name)) {
          field = fields[i];
        }
      }
      kind = kind.getSuperclass();
    }
    if (field == null) {
      throw new NoSuchFieldException(name);
    }
    field.setAccessible(true);
    ParserInterface own = behind((ParserInterface) field.get(holder));
    Class[] interfaces = new Class[] {ParserInterface.class};
    ClassLoader loader = StatementParser.class.getClassLoader();
    field.set(holder, Proxy.newProxyInstance(loader, interfaces, new StatementParser(own, session)));
  }

  /** The session's own parser. */
  public static ParserInterface behind(ParserInterface parser) {
    if (Proxy.isProxyClass(parser.getClass())) {
      InvocationHandler handler = Proxy.getInvocationHandler(parser);
      if (handler instanceof StatementParser) {
        return ((StatementParser) handler).parser;
      }
    }
    return parser;
  }

  /**
   * The plan of a text by the session's own parser; null if it cannot parse it.
   *
   * A failure that reaches Python is logged there with both stacks, even where the text is ours.
   */
  public static LogicalPlan parsed(ParserInterface parser, String text) {
    try {
      return behind(parser).parsePlan(text);
    } catch (Exception refused) {
      return null;
    }
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    // The texts of views are read as queries.
    boolean parses =
        (method.getName().startsWith("parsePlan") || method.getName().equals("parseQuery"))
            && arguments != null && arguments[0] instanceof String;
    try {
      Object parsed = method.invoke(parser, arguments);
      return parses ? resolved((String) arguments[0], (LogicalPlan) parsed) : parsed;
    } catch (InvocationTargetException failure) {
      LogicalPlan own = parses ? taken((String) arguments[0], null) : null;
      if (own == null) {
        throw failure.getCause();
      }
      return own;
    }
  }

  /** Forgets which views were read; sets whether index names are resolved in the next ones. */
  static void readViews(boolean isNamed) {
    VIEWS.set(isNamed ? NAMED : null);
  }

  /** Whether this thread has read the text of a view since then. */
  static boolean hasReadViews() {
    return VIEWS.get() != null;
  }

  /** The plan of a view's text, with expressions for names of indexes where that is set. */
  private LogicalPlan ofView(LogicalPlan plan) {
    Origin origin = CurrentOrigin.get();
    if (origin.objectType().isEmpty() || !origin.objectType().get().equals("VIEW")) {
      return plan;
    }
    if (!NAMED.equals(VIEWS.get())) {
      VIEWS.set(SEEN);
      return plan;
    }
    String zone = SQLConf.get().sessionLocalTimeZone();
    Object name = origin.objectName().get();
    Object answer = Calls.resolveView(session, plan, name.toString(), zone);
    return answer instanceof LogicalPlan ? (LogicalPlan) answer : plan;
  }

  private LogicalPlan resolved(String text, LogicalPlan parsed) {
    LogicalPlan plan = ofView(bound(session, parsed));
    if (!isKnown(plan)) {
      return plan;
    }
    LogicalPlan own = taken(text, plan);
    return own == null ? leftToSpark(plan) : own;
  }

  /** Marks a statement that Spark runs as it is; the analyzer does not pass it to Python again. */
  public static LogicalPlan leftToSpark(LogicalPlan plan) {
    plan.setTagValue(LEFT_TO_SPARK, Boolean.TRUE);
    return plan;
  }

  /** Whether a statement did not pass through this parser, as those of a script do not. */
  static boolean isUnseen(LogicalPlan plan) {
    return KINDS.contains(plan.getClass().getSimpleName())
        && plan.origin().sqlText().isDefined()
        && !isLeftToSpark(plan);
  }

  static boolean isLeftToSpark(LogicalPlan plan) {
    return plan.getTagValue(LEFT_TO_SPARK).isDefined();
  }

  /** Whether a plan is a statement that may concern a table of ours. */
  public static boolean isKnown(LogicalPlan plan) {
    LogicalPlan root = plan;
    while (root instanceof UnresolvedWith) {
      root = ((UnresolvedWith) root).child();
    }
    if (root instanceof Union) {
      // FROM ... INSERT ... INSERT ...
      root = (LogicalPlan) root.children().apply(0);
    }
    return KINDS.contains(root.getClass().getSimpleName());
  }

  /** The plan by which Python runs a statement; null if the statement is not ours. */
  private LogicalPlan taken(String text, LogicalPlan plan) {
    return command(session, Calls.takeStatement(session, text, plan));
  }

  /** The plan of Python's answer: a plan, a command that runs a statement, or null for neither. */
  static LogicalPlan command(String session, Object answer) {
    if (answer instanceof LogicalPlan) {
      return (LogicalPlan) answer;
    }
    if (answer == null || answer.equals("")) {
      return null;
    }
    // The name of the prepared statement, then the columns of its rows.
    String[] prepared = ((String) answer).split(Contract.SEPARATOR, 2);
    return new StatementCommand(
        new StatementRunner(session, prepared[1]),
        prepared[0],
        scala.collection.immutable.Map$.MODULE$.empty());
  }

  /** A plan in which references to earlier states and changes of our tables are resolved. */
  public static LogicalPlan bound(String session, LogicalPlan plan) {
    return bound(session, plan, !isKnown(plan));
  }

  /** The same; tables that are named by their paths are resolved too, or left to the statement. */
  public static LogicalPlan bound(String session, LogicalPlan plan, boolean paths) {
    return (LogicalPlan) plan.transformUpWithSubqueries(new Binder(session, paths));
  }

  public static final class Binder extends scala.runtime.AbstractPartialFunction {

    private final String session;
    private final boolean paths;

    public Binder(String session, boolean paths) {
      this.session = session;
      this.paths = paths;
    }

    public boolean isDefinedAt(Object node) {
      return isTravel(node)
          || node instanceof UnresolvedTableValuedFunction
          || node instanceof UnresolvedWith
          || (paths && (isPath(node) || hasReadOptions(node)));
    }

    /** Whether a node is a table as of an earlier time; Hudi's parser has another name for it. */
    private static boolean isTravel(Object node) {
      return node instanceof RelationTimeTravel
          || node.getClass().getSimpleName().equals(Contract.HUDI_TIME_TRAVEL);
    }

    /**
     * Whether a node is a name with options of a reader. Spark keeps one relation for each name of a
     * catalog, whatever the options are, so that those of the first reader would be those of all.
     */
    static boolean hasReadOptions(Object node) {
      if (!(node instanceof UnresolvedRelation) || ((UnresolvedRelation) node).isStreaming()) {
        return false;
      }
      java.util.Iterator names = ((UnresolvedRelation) node).options().keySet().iterator();
      while (names.hasNext()) {
        if (!((String) names.next()).startsWith(Contract.SPARK_OPTIONS)) {
          return true;
        }
      }
      return false;
    }

    /** Whether a node is of the form hudi.`/path/of/table`. */
    private static boolean isPath(Object node) {
      if (!(node instanceof UnresolvedRelation)) {
        return false;
      }
      @SEQ@ parts = ((UnresolvedRelation) node).multipartIdentifier();
      if (parts.size() != 2 || ((String) parts.apply(1)).indexOf('/') < 0) {
        return false;
      }
      String source = ((String) parts.apply(0)).toLowerCase();
      return source.equals(Contract.HUDI_SOURCE) || source.equals(Contract.DATA_SOURCE);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof UnresolvedWith) {
        return withBoundQueries((UnresolvedWith) node);
      }
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      Object answer = Calls.resolveRelation(session, node);
      return answer instanceof LogicalPlan ? answer : node;
    }

    /** The queries that a WITH names are not among its children. */
    private Object withBoundQueries(UnresolvedWith node) {
      java.util.List relations = new java.util.ArrayList();
      scala.collection.Iterator each = node.cteRelations().iterator();
      while (each.hasNext()) {
        scala.Product named = (scala.Product) each.next();
        LogicalPlan query =
            StatementParser.bound(session, (LogicalPlan) named.productElement(1), true);
        if (named.productArity() == 2) {
          relations.add(new scala.Tuple2(named.productElement(0), query));
        } else {
          relations.add(
              new scala.Tuple3(named.productElement(0), query, named.productElement(2)));
        }
      }
      Object[] members = new Object[node.productArity()];
      for (int i = 0; i < members.length; i++) {
        members[i] = node.productElement(i);
      }
      members[1] = Lists.scala(relations);
      return node.makeCopy(members);
    }
  }
}
