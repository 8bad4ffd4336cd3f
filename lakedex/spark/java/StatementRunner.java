package lakedex.jvm;

import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.connector.ExternalCommandRunner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.StructType$;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Has Python run a statement that it prepared, when Spark executes it. */
public final class StatementRunner implements ExternalCommandRunner {

  private final String session;
  private final @SEQ@ columns;

  /** The columns are those of the rows that the statement returns, as DDL; empty for none. */
  public StatementRunner(String session, String columns) {
    this.session = session;
    StructType shown =
        columns.length() == 0 ? new StructType() : StructType$.MODULE$.fromDDL(columns);
    this.columns = (@SEQ@) DataTypeUtils$.MODULE$.toAttributes(shown);
  }

  @SEQ@ columns() {
    return columns;
  }

  List rows(String statement) {
    Object found = Calls.runStatement(session, statement);
    return found == null ? Collections.EMPTY_LIST : ((@DATASET@) found).collectAsList();
  }

  public String[] executeCommand(String statement, CaseInsensitiveStringMap options) {
    throw new UnsupportedOperationException("the command is run for its rows");
  }
}
