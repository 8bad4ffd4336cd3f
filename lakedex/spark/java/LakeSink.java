package lakedex.jvm;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;

/** Writes the batches of a stream into a table, each of them once. */
public final class LakeSink implements Sink {

    private static final Pattern CANCELLED = Pattern.compile(Contract.CANCELLED_JOB);

  private final SQLContext context;
  private final Map options;
  private final OutputMode mode;

  public LakeSink(SQLContext context, Map options, OutputMode mode) {
    this.context = context;
    this.options = options;
    this.mode = mode;
  }

  public void addBatch(long number, Dataset rows) {
    @SESSION@ session = (@SESSION@) context.sparkSession();
    // The plan of a batch can be run, but not be made a part of another one.
    RDD computed = ((@DATASET@) rows).queryExecution().toRdd();
    Dataset plain = session.internalCreateDataFrame(computed, rows.schema(), false);
    String query = session.sparkContext().getLocalProperty(Contract.STREAMING_QUERY_PROPERTY);
    try {
      Calls.streamWrite(session.sessionUUID(), query, number, mode.toString(), options, plain);
    } catch (IllegalArgumentException error) {
      if (Thread.currentThread().isInterrupted() || CANCELLED.matcher(error.getMessage()).find()) {
        // Spark treats this error as a query that was stopped, not as one that failed.
        throw new UncheckedIOException(new InterruptedIOException(error.getMessage()));
      }
      throw error;
    }
  }

  public String name() {
    return Contract.DATA_SOURCE;
  }

  public StructType schema() {
    return new StructType();
  }

  public Set capabilities() {
    return Collections.emptySet();
  }

  public String toString() {
    return "lakedex sink at " + options.get(Contract.PATH_OPTION);
  }
}
