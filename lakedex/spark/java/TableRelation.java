package lakedex.jvm;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;

/**
 * The relation that catalogs, views and DataFrames hold: it names a table and takes inserts.
 *
 * It cannot be read. `PinRule` replaces it by relations that are pinned to one snapshot.
 */
public final class TableRelation extends BaseRelation implements InsertableRelation {

  private final SQLContext context;
  private final String session;
  private final String spec;
  private final StructType columns;
  private final long size;

  public TableRelation(
      SQLContext context, String session, String spec, StructType columns, long size) {
    this.context = context;
    this.session = session;
    this.spec = spec;
    this.columns = columns;
    this.size = size;
  }

  public String session() {
    return session;
  }

  /** The path of the table and how it is to be read: the text form of Python's `ReadSpec`. */
  public String spec() {
    return spec;
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
    Calls.insert(session, spec, overwrite, rows);
  }

  public boolean equals(Object other) {
    if (!(other instanceof TableRelation)) {
      return false;
    }
    TableRelation relation = (TableRelation) other;
    return relation.spec.equals(spec) && relation.columns.equals(columns);
  }

  public int hashCode() {
    return spec.hashCode();
  }

  public String toString() {
    return "lakedex " + spec;
  }
}
