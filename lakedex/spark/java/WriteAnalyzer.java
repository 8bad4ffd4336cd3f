package lakedex.jvm;

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.unsafe.Platform;

/**
 * A session's analyzer, that passes writes into our tables to Python which no parser saw, such as
 * those of DataFrames and of a script's statements, and queries that name a column which Spark does
 * not find: it may be the name of an index.
 *
 * Spark would count Hudi's five columns when it holds the columns of a DataFrame against those of
 * the table, and takes no `writeTo` for such tables. All else goes to the analyzer behind it.
 */
public final class WriteAnalyzer extends Analyzer {

  private static final String LOGICAL = "org.apache.spark.sql.catalyst.plans.logical.";
  private static final Set KINDS = new HashSet(Arrays.asList(new Object[] {
    LOGICAL + "InsertIntoStatement",
    LOGICAL + "AppendData",
    LOGICAL + "OverwritePartitionsDynamic",
    LOGICAL + "OverwriteByExpression",
    LOGICAL + "UpdateTable",
    LOGICAL + "DeleteFromTable",
    LOGICAL + "MergeIntoTable",
    LOGICAL + "CreateTable",
    LOGICAL + "CreateTableAsSelect",
    LOGICAL + "ReplaceTableAsSelect",
    "org.apache.spark.sql.execution.datasources.CreateTable"
  }));

  private final Analyzer behind;
  private final String session;

  private WriteAnalyzer(Analyzer behind, String session) {
    super(@ANALYZER@);
    this.behind = behind;
    this.session = session;
  }

  /** Put one in front of the session's own, unless there is one. */
  public static void install(@SESSION@ session) throws Exception {
    Analyzer present = session.sessionState().analyzer();
    if (present instanceof WriteAnalyzer) {
      return;
    }
    Class kind = session.sessionState().getClass();
    while (!kind.getName().equals("org.apache.spark.sql.internal.SessionState")) {
      kind = kind.getSuperclass();
    }
    Field field = kind.getDeclaredField("analyzer");
    field.setAccessible(true);
    field.set(session.sessionState(), new WriteAnalyzer(present, session.sessionUUID()));
  }

  public LogicalPlan executeAndCheck(LogicalPlan plan, QueryPlanningTracker tracker) {
    LogicalPlan own = null;
    if (KINDS.contains(plan.getClass().getName()) && !StatementParser.isLeftToSpark(plan)
        || StatementParser.isUnseen(plan)) {
      own = StatementParser.command(
          session, Python.call("write", Arrays.asList(new Object[] {session, plan})));
    }
    LogicalPlan asked = own == null ? plan : own;
    StatementParser.readViews(false);
    try {
      return behind.executeAndCheck(asked, tracker);
    } catch (Throwable failure) {
      if (!isUnresolved(failure)) {
        Platform.throwException(failure);
      }
      return understood(asked, tracker, failure);
    }
  }

  /** The query once more, with expressions for names of indexes in it and in the views it reads. */
  private LogicalPlan understood(
      LogicalPlan plan, QueryPlanningTracker tracker, Throwable failure) {
    boolean hasViews = StatementParser.hasReadViews();
    LogicalPlan named = named(plan);
    if (named == null && !hasViews) {
      Platform.throwException(failure);
    }
    StatementParser.readViews(hasViews);
    try {
      return behind.executeAndCheck(named == null ? plan : named, tracker);
    } finally {
      StatementParser.readViews(false);
    }
  }

  /** Whether Spark found no column of some name. */
  private static boolean isUnresolved(Throwable failure) {
    String message = failure.getMessage();
    return message != null && message.startsWith("[UNRESOLVED_COLUMN");
  }

  /** The plan with expressions in the place of names of indexes; null where it names none. */
  private LogicalPlan named(LogicalPlan plan) {
    Object answer = Python.call("named", Arrays.asList(new Object[] {session, plan}));
    return answer instanceof LogicalPlan ? (LogicalPlan) answer : null;
  }

  public LogicalPlan execute(LogicalPlan plan) {
    return behind.execute(plan);
  }

  public void checkAnalysis(LogicalPlan plan) {
    behind.checkAnalysis(plan);
  }
}
