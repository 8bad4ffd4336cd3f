package lakedex.jvm;

import java.util.Arrays;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;

/**
 * What catalogs, views and DataFrames hold of a table: it names the table and takes inserts.
 *
 * It cannot be read. `PinRule` puts relations in its place that stay at one snapshot.
 */
public final class LakeFace extends BaseRelation implements InsertableRelation {

  private final SQLContext context;
  private final String session;
  private final String table;
  private final StructType columns;
  private final long size;

  public LakeFace(
      SQLContext context, String session, String table, StructType columns, long size) {
    this.context = context;
    this.session = session;
    this.table = table;
    this.columns = columns;
    this.size = size;
  }

  public String session() {
    return session;
  }

  /** Where the table lies and how it is to be read, as Python spells it. */
  public String table() {
    return table;
  }

  public SQLContext sqlContext() {
    return context;
  }

  public StructType schema() {
    return columns;
  }

  public long sizeInBytes() {
    return size;
  }

  public void insert(Dataset rows, boolean overwrite) {
    Object[] message = new Object[] {session, table, Boolean.valueOf(overwrite), rows};
    Python.call("insert", Arrays.asList(message));
  }

  public boolean equals(Object other) {
    if (!(other instanceof LakeFace)) {
      return false;
    }
    LakeFace face = (LakeFace) other;
    return face.table.equals(table) && face.columns.equals(columns);
  }

  public int hashCode() {
    return table.hashCode();
  }

  public String toString() {
    return "lakedex " + table;
  }
}
