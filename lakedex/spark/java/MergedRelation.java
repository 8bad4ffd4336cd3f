package lakedex.jvm;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.StructType;

/** The file slices of a pinned snapshot that Spark's Parquet reader cannot read by itself. */
public final class MergedRelation extends BaseRelation implements CatalystScan {

  private static final ThreadLocal last = new ThreadLocal();
  private static final ThreadLocal postponed = new ThreadLocal();

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

  String session() {
    return session;
  }

  String pin() {
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
    MergedScan scan = new MergedScan(session, pin, wanted.json(), filters);
    last.set(scan);
    if (postponed.get() != null) {
      return context.sparkContext().emptyRDD(scala.reflect.ClassTag$.MODULE$.Any());
    }
    return scan.rows(filters);
  }

  /** Sets whether scans that this thread plans are listed only when they are run. */
  static void postpone(boolean isPostponed) {
    postponed.set(isPostponed ? Boolean.TRUE : null);
  }

  /** The scan that was last planned in this thread. */
  static MergedScan last() {
    return (MergedScan) last.get();
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
