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
 * A session's analyzer that passes to Python the writes into our tables that no parser saw, such as
 * those of DataFrames and of a script's statements, names of tables with options of a reader, and
 * queries with a column that Spark cannot resolve, which may be the name of an index.
 *
 * Spark would compare the columns of a DataFrame with all columns of the table, Hudi's five included,
 * and does not support `writeTo` for such tables. Other plans go to the session's own analyzer.
 */
public final class WriteAnalyzer extends Analyzer {

  /** The kinds of writes that Python handles, by the names of Spark's classes. */
  private static volatile Set KINDS = new HashSet();

  private final Analyzer behind;
  private final String session;

  private WriteAnalyzer(Analyzer behind, String session) {
    super(@ANALYZER@);
    this.behind = behind;
    this.session = session;
  }

  /** Puts one before the session's own analyzer, unless there is one. */
  public static void install(@SESSION@ session, String kinds) throws Exception {
    KINDS = new HashSet(Arrays.asList(kinds.split(Contract.SEPARATOR)));
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
      own = StatementParser.command(session, Calls.takeWrite(session, plan));
    }
    LogicalPlan analyzed = own;
    if (own == null) {
      boolean isRead = StatementParser.Binder.hasReadOptions(plan);
      analyzed = isRead ? StatementParser.bound(session, plan, true) : plan;
    }
    StatementParser.readViews(false);
    try {
      return behind.executeAndCheck(analyzed, tracker);
    } catch (Throwable failure) {
      if (!isUnresolved(failure)) {
        Platform.throwException(failure);
      }
      return withIndexNames(analyzed, tracker, failure);
    }
  }

  /** Analyzes a query with expressions for names of indexes in it and in the views it reads. */
  private LogicalPlan withIndexNames(
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

  /** Whether Spark could not resolve a column. */
  private static boolean isUnresolved(Throwable failure) {
    String message = failure.getMessage();
    return message != null && message.startsWith("[UNRESOLVED_COLUMN");
  }

  /** The plan with expressions in place of names of indexes; null if it names none. */
  private LogicalPlan named(LogicalPlan plan) {
    Object answer = Calls.resolveIndexNames(session, plan);
    return answer instanceof LogicalPlan ? (LogicalPlan) answer : null;
  }

  public LogicalPlan execute(LogicalPlan plan) {
    return behind.execute(plan);
  }

  public void checkAnalysis(LogicalPlan plan) {
    behind.checkAnalysis(plan);
  }
}
