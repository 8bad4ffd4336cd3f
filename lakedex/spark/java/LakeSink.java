package lakedex.jvm;

import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;

/** Batches of a stream that Python writes into a table, each of them once. */
public final class LakeSink implements Sink {

  private static final String QUERY = "sql.streaming.queryId";

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
    String query = session.sparkContext().getLocalProperty(QUERY);
    Object[] message = new Object[] {
      session.sessionUUID(), query, Long.valueOf(number), mode.toString(), options, plain
    };
    Python.call("stream_write", Arrays.asList(message));
  }

  public String name() {
    return "lakedex";
  }

  public StructType schema() {
    return new StructType();
  }

  public Set capabilities() {
    return Collections.emptySet();
  }

  public String toString() {
    return "lakedex sink at " + options.get("path");
  }
}
