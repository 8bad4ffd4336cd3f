package lakedex.jvm;

import org.apache.spark.sql.connector.ExternalCommandRunner;
import org.apache.spark.sql.execution.command.ExternalCommandExecutor;

/** A statement that Python runs: Spark executes it once, and shows the rows that it returns. */
public final class StatementCommand extends ExternalCommandExecutor {

  /** Its members are those of the class above, by which Spark copies it. */
  public StatementCommand(
      ExternalCommandRunner runner, String statement, scala.collection.immutable.Map options) {
    super(runner, statement, options);
  }

  public @SEQ@ output() {
    return ((StatementRunner) runner()).columns();
  }

  public @SEQ@ run(@COMMAND_SESSION@ session) {
    return Lists.scala(((StatementRunner) runner()).rows(command()));
  }
}
