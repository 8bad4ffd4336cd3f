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
 * A session's parser, asked first by everybody, that passes statements about our tables to Python.
 *
 * Spark's own parser parses. Python is asked about statements of a few kinds only, or about a text
 * that Spark cannot parse; a query costs one walk over its unresolved plan.
 */
public final class StatementParser implements InvocationHandler {

  private static final Set KINDS = new HashSet(Arrays.asList(new Object[] {
    "CreateTableLike", "CreateTableLikeCommand", "AnalyzeTable", "AnalyzeColumn",
    "CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect", "DropTable",
    "AddColumns", "AlterColumn", "AlterColumns", "RenameColumn", "DropColumns", "ReplaceColumns",
    "SetTableProperties", "SetTableSerDeProperties", "UnsetTableProperties", "SetTableLocation",
    "RenameTable",
    "AddPartitions", "DropPartitions", "RenamePartitions", "RepairTable", "RecoverPartitions",
    "InsertIntoStatement", "OverwriteByExpression", "UpdateTable", "DeleteFromTable",
    "MergeIntoTable", "TruncateTable", "TruncatePartition", "ShowPartitions", "CreateIndex",
    "DropIndex", "Call", "SetCommand", "ExplainCommand", "DescribeRelation", "DescribeTablePartition",
    "ShowTablePartition", "ShowTableExtended", "AlterTableClusterBy", "AlterTableCollation"
  }));

  private static final TreeNodeTag LEFT_TO_SPARK = new TreeNodeTag("lakedex.left_to_spark");

  /** What a thread makes of the texts of views: null, or whether index names are looked for. */
  private static final ThreadLocal VIEWS = new ThreadLocal();
  private static final String SEEN = "seen";
  private static final String NAMED = "named";

  private final ParserInterface parser;
  private final String session;

  public StatementParser(ParserInterface parser, String session) {
    this.parser = parser;
    this.session = session;
  }

  /** Put a parser of ours in front of the session's, or in the place of one of ours. */
  public static void install(@SESSION@ session) throws Exception {
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
    Class[] faces = new Class[] {ParserInterface.class};
    ClassLoader loader = StatementParser.class.getClassLoader();
    field.set(holder, Proxy.newProxyInstance(loader, faces, new StatementParser(own, session)));
  }

  /** The parser that was there before. */
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
   * What the parser that was there before makes of a text; null where it refuses it.
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
      return parses ? taken((String) arguments[0], (LogicalPlan) parsed) : parsed;
    } catch (InvocationTargetException failure) {
      LogicalPlan own = parses ? asked((String) arguments[0], null) : null;
      if (own == null) {
        throw failure.getCause();
      }
      return own;
    }
  }

  /** Forget what views were read, and look for names of indexes in those that come, or do not. */
  static void readViews(boolean named) {
    VIEWS.set(named ? NAMED : null);
  }

  /** Whether this thread has read the text of a view since. */
  static boolean hasReadViews() {
    return VIEWS.get() != null;
  }

  /** The text of a view that is read: with expressions for names of indexes, where asked for. */
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
    Object answer =
        Python.call("view", Arrays.asList(new Object[] {session, plan, name, zone}));
    return answer instanceof LogicalPlan ? (LogicalPlan) answer : plan;
  }

  private LogicalPlan taken(String text, LogicalPlan parsed) {
    LogicalPlan plan = ofView(bound(session, parsed));
    if (!isKnown(plan)) {
      return plan;
    }
    LogicalPlan own = asked(text, plan);
    return own == null ? leftToSpark(plan) : own;
  }

  /** A statement that Spark shall run as it is; the analyzer does not ask about it again. */
  public static LogicalPlan leftToSpark(LogicalPlan plan) {
    plan.setTagValue(LEFT_TO_SPARK, Boolean.TRUE);
    return plan;
  }

  /** Whether a statement came by no parser of ours, as those of a script do. */
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

  /** What Python makes of a statement; null where it is none of ours. */
  private LogicalPlan asked(String text, LogicalPlan plan) {
    return command(
        session, Python.call("statement", Arrays.asList(new Object[] {session, text, plan})));
  }

  /** The plan that Python's answer means: its own, a command that runs a statement, or none. */
  static LogicalPlan command(String session, Object answer) {
    if (answer instanceof LogicalPlan) {
      return (LogicalPlan) answer;
    }
    if (answer == null || answer.equals("")) {
      return null;
    }
    String[] told = ((String) answer).split("\n", 2);
    return new StatementCommand(
        new StatementRunner(session, told[1]),
        told[0],
        scala.collection.immutable.Map$.MODULE$.empty());
  }

  /** A plan with earlier states and changes of our tables put in, wherever it names them. */
  public static LogicalPlan bound(String session, LogicalPlan plan) {
    return bound(session, plan, !isKnown(plan));
  }

  /** The same; tables that are named by their paths are put in too, or left to the statement. */
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
          || (paths && isPath(node));
    }

    /** Whether a node is a table as of an earlier time; Hudi's own parser has another name for it. */
    private static boolean isTravel(Object node) {
      return node instanceof RelationTimeTravel
          || node.getClass().getSimpleName().equals("TimeTravelRelation");
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
      return source.equals("hudi") || source.equals("lakedex");
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof UnresolvedWith) {
        return withBoundQueries((UnresolvedWith) node);
      }
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      Object answer = Python.call("travel", Arrays.asList(new Object[] {session, node}));
      return answer instanceof LogicalPlan ? answer : node;
    }

    /** Queries that a WITH names are no children of it. */
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
