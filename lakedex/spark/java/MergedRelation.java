package lakedex.jvm;

import java.util.Arrays;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.StructType;

/** The file slices of a pinned snapshot that Spark's Parquet reader cannot take by itself. */
public final class MergedRelation extends BaseRelation implements CatalystScan {

  private static final ThreadLocal counts = new ThreadLocal();

  private final SQLContext context;
  private final String session;
  private final String pin;
  private final StructType columns;
  private final long size;

  public MergedRelation(
      SQLContext context, String session, String pin, StructType columns, long size) {
    this.context = context;
    this.session = session;
    this.pin = pin;
    this.columns = columns;
    this.size = size;
  }

  public String pin() {
    return pin;
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

  public boolean needConversion() {
    return false;
  }

  public RDD buildScan(@SEQ@ required, @SEQ@ filters) {
    StructType wanted = new StructType();
    scala.collection.Iterator each = required.iterator();
    while (each.hasNext()) {
      Attribute column = (Attribute) each.next();
      wanted = wanted.add(column.name(), column.dataType(), true);
    }
    String text = session + "\n" + pin + "\n" + FilterText.describe(filters);
    Object rows = Python.call("merge", Arrays.asList(new Object[] {text, wanted.json()}));
    counts.set(Python.text("merged_counts", text));
    return (RDD) rows;
  }

  /** Slices and bytes of the table, and those that the last scan of this thread reads. */
  static String lastCounts() {
    String found = (String) counts.get();
    return found == null ? "" : found;
  }

  public boolean equals(Object other) {
    return other instanceof MergedRelation && ((MergedRelation) other).pin.equals(pin);
  }

  public int hashCode() {
    return pin.hashCode();
  }

  public String toString() {
    return "lakedex merged " + pin;
  }
}
