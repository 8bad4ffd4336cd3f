package lakedex.jvm;

import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;

/**
 * The commits of a table as a stream of its rows.
 *
 * Python decides where a batch ends. A batch is a relation of the table at these commits, which
 * `PinRule` pins like any other.
 */
public final class LakeStream implements Source, SupportsTriggerAvailableNow {

  private final SQLContext context;
  private final String session;
  private final Map options;
  private final StructType columns;
  private final String name = UUID.randomUUID().toString();
  private String bound = "";

  public LakeStream(SQLContext context, String session, Map options, StructType columns) {
    this.context = context;
    this.session = session;
    this.options = options;
    this.columns = columns;
  }

  public StructType schema() {
    return columns;
  }

  public scala.Option getOffset() {
    throw new UnsupportedOperationException("latestOffset decides where a batch ends");
  }

  public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
    throw new UnsupportedOperationException("latestOffset decides where a stream begins");
  }

  public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String json) {
    return new LakeOffset(json);
  }

  /** The options limit a batch, unless the trigger takes all that is available. */
  public ReadLimit getDefaultReadLimit() {
    return new OptionsLimit();
  }

  public void prepareForTriggerAvailableNow() {
    bound = Calls.streamNewest(session, name, options);
  }

  public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
      org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    String after = start == null ? "" : start.json();
    boolean everything = limit instanceof ReadAllAvailable;
    String next = Calls.streamNext(session, name, options, after, bound, everything);
    return next.length() == 0 ? null : new LakeOffset(next);
  }

  public Dataset getBatch(scala.Option start, Offset end) {
    String after = start.isDefined() ? ((Offset) start.get()).json() : "";
    String spec = Calls.streamBatch(session, name, options, after, end.json());
    TableRelation batch = new TableRelation(context, session, spec, columns, Long.MAX_VALUE);
    LogicalPlan plan = LogicalRelation$.MODULE$.apply(batch, true);
    return @DATASET@$.MODULE$.ofRows((@SESSION@) context.sparkSession(), plan);
  }

  public void commit(org.apache.spark.sql.connector.read.streaming.Offset end) {}

  public void commit(Offset end) {}

  public void stop() {}

  public String toString() {
    return "lakedex stream of " + options.get(Contract.PATH_OPTION);
  }

  public static final class OptionsLimit implements ReadLimit {}
}
