package lakedex.jvm;

import org.apache.spark.sql.connector.ExternalCommandRunner;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Lets Python run a statement that it took, when Spark comes to run it. */
public final class StatementRunner implements ExternalCommandRunner {

  private final String session;

  public StatementRunner(String session) {
    this.session = session;
  }

  public String[] executeCommand(String statement, CaseInsensitiveStringMap options) {
    String told = Python.text("run", session + "\n" + statement);
    return told.length() == 0 ? new String[0] : told.split("\n");
  }
}
