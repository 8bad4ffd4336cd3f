package lakedex.jvm;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.RowDataSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;

/** A scan by our own reader: a table, columns, and the filters that the plan has for it. */
final class MergedScan {

  private final String session;
  private final String pin;
  private final String columns;
  private final scala.collection.Seq filters;
  private String counts = "";

  MergedScan(String session, String pin, String columns, scala.collection.Seq filters) {
    this.session = session;
    this.pin = pin;
    this.columns = columns;
    this.filters = filters;
  }

  /** The rows of slices that may match these filters; their files are chosen now. */
  RDD rows(scala.collection.Seq all) {
    String text = FilterText.describe(all);
    Object rows = Calls.readMerged(session, pin, text, columns);
    counts = Calls.countMerged(session, pin, text);
    return (RDD) rows;
  }

  /** Lists the slices that may match, with the values of its dynamic filters; none is read. */
  void list(scala.collection.Seq values) {
    Calls.listFiles(session, pin, FilterText.describe(Lists.joined(filters, values)));
  }

  /** The same scan, of the slices that the values of its dynamic filters leave. */
  SparkPlan again(SparkPlan scan, scala.collection.Seq values) {
    return (SparkPlan) scan.transformUp(new WithRows(rows(Lists.joined(filters, values))));
  }

  /** The counts of the last read, as `Contract` orders them. */
  String counts() {
    return counts;
  }

  /** Replaces the rows of a scan, which may be inside of a stage of generated code. */
  public static final class WithRows extends scala.runtime.AbstractPartialFunction {

    private final RDD rows;

    public WithRows(RDD rows) {
      this.rows = rows;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof RowDataSourceScanExec;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      RowDataSourceScanExec scan = (RowDataSourceScanExec) node;
      Object[] members = new Object[scan.productArity()];
      for (int i = 0; i < members.length; i++) {
        Object member = scan.productElement(i);
        members[i] = member instanceof RDD ? rows : member;
      }
      return scan.makeCopy(members);
    }
  }
}
