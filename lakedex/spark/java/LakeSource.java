package lakedex.jvm;

import java.util.Arrays;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.execution.datasources.DataSourceUtils$;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.JavaConverters;

/** Hudi tables as a data source of Spark. */
public class LakeSource
    implements RelationProvider, SchemaRelationProvider, CreatableRelationProvider,
        StreamSourceProvider, StreamSinkProvider, DataSourceRegister {

  public String shortName() {
    return "lakedex";
  }

  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map parameters) {
    return face(context, parameters, null);
  }

  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map parameters, StructType columns) {
    return face(context, parameters, columns);
  }

  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map parameters,
      Dataset rows) {
    Object[] message = new Object[] {session(context), mode.name(), java(parameters), rows};
    Python.call("save", Arrays.asList(message));
    return face(context, path(parameters), null);
  }

  public scala.Tuple2 sourceSchema(
      SQLContext context,
      scala.Option columns,
      String provider,
      scala.collection.immutable.Map parameters) {
    return new scala.Tuple2(provider, streamed(context, parameters));
  }

  public Source createSource(
      SQLContext context,
      String checkpoint,
      scala.Option columns,
      String provider,
      scala.collection.immutable.Map parameters) {
    StructType schema = streamed(context, parameters);
    return new LakeStream(context, session(context), java(parameters), schema);
  }

  public Sink createSink(
      SQLContext context,
      scala.collection.immutable.Map parameters,
      @SEQ@ partitionColumns,
      OutputMode mode) {
    java.util.Map options = new java.util.HashMap(java(parameters));
    if (!partitionColumns.isEmpty()) {
      // As a DataFrameWriter hands them over.
      options.put("__partition_columns",
          DataSourceUtils$.MODULE$.encodePartitioningColumns(partitionColumns));
    }
    return new LakeSink(context, options, mode);
  }

  /** The columns of a stream: those of the table, whatever kind of query the options name. */
  private static StructType streamed(
      SQLContext context, scala.collection.immutable.Map parameters) {
    Object[] message = new Object[] {session(context), java(parameters)};
    Python.call("stream_options", Arrays.asList(message));
    return face(context, path(parameters), null).schema();
  }

  /** The table alone, for what was checked already. */
  private static java.util.Map path(scala.collection.immutable.Map parameters) {
    java.util.Map options = new java.util.HashMap();
    options.put("path", java(parameters).get("path"));
    return options;
  }

  private static LakeFace face(
      SQLContext context, scala.collection.immutable.Map parameters, StructType columns) {
    return face(context, java(parameters), columns);
  }

  private static LakeFace face(SQLContext context, java.util.Map options, StructType columns) {
    String session = session(context);
    String given = columns == null ? "" : columns.json();
    Object[] message = new Object[] {session, options, given};
    String[] told = Python.text("face", Arrays.asList(message)).split("\n");
    StructType schema = (StructType) DataType.fromJson(told[1]);
    return new LakeFace(context, session, told[0], schema, Long.parseLong(told[2]));
  }

  static String session(SQLContext context) {
    return ((@SESSION@) context.sparkSession()).sessionUUID();
  }

  private static java.util.Map java(scala.collection.immutable.Map parameters) {
    return (java.util.Map) JavaConverters.mapAsJavaMapConverter(parameters).asJava();
  }
}
