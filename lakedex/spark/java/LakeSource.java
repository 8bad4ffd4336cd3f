package lakedex.jvm;

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
    return Contract.DATA_SOURCE;
  }

  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map parameters) {
    return relation(context, parameters, null);
  }

  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map parameters, StructType columns) {
    return relation(context, parameters, columns);
  }

  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map parameters,
      Dataset rows) {
    Calls.save(session(context), mode.name(), java(parameters), rows);
    return relation(context, path(parameters), null);
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
      // In the form that a DataFrameWriter gives them.
      options.put(Contract.PARTITION_COLUMNS_OPTION,
          DataSourceUtils$.MODULE$.encodePartitioningColumns(partitionColumns));
    }
    return new LakeSink(context, options, mode);
  }

  /** The columns of a stream: those of the table, whatever kind of query the options name. */
  private static StructType streamed(
      SQLContext context, scala.collection.immutable.Map parameters) {
    Calls.checkStream(session(context), java(parameters));
    return relation(context, path(parameters), null).schema();
  }

  /** The option with the table's path alone; the other options were checked before. */
  private static java.util.Map path(scala.collection.immutable.Map parameters) {
    java.util.Map options = new java.util.HashMap();
    options.put(Contract.PATH_OPTION, java(parameters).get(Contract.PATH_OPTION));
    return options;
  }

  private static TableRelation relation(
      SQLContext context, scala.collection.immutable.Map parameters, StructType columns) {
    return relation(context, java(parameters), columns);
  }

  private static TableRelation relation(
      SQLContext context, java.util.Map options, StructType columns) {
    String session = session(context);
    String given = columns == null ? "" : columns.json();
    String[] table = Calls.describeTable(session, options, given);
    return new TableRelation(
        context,
        session,
        table[Contract.DESCRIBE_TABLE_SPEC],
        (StructType) DataType.fromJson(table[Contract.DESCRIBE_TABLE_COLUMNS]),
        Long.parseLong(table[Contract.DESCRIBE_TABLE_SIZE]));
  }

  static String session(SQLContext context) {
    return ((@SESSION@) context.sparkSession()).sessionUUID();
  }

  private static java.util.Map java(scala.collection.immutable.Map parameters) {
    return (java.util.Map) JavaConverters.mapAsJavaMapConverter(parameters).asJava();
  }
}
