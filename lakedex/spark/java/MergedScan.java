package lakedex.jvm;

import java.util.Arrays;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.RowDataSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;

/** What a scan asks of our reader: a table, columns, and the filters that a plan has for it. */
final class MergedScan {

  private final String source;
  private final String columns;
  private final scala.collection.Seq filters;
  private String counts = "";

  MergedScan(String source, String columns, scala.collection.Seq filters) {
    this.source = source;
    this.columns = columns;
    this.filters = filters;
  }

  /** The rows of slices that may match these filters; their files are chosen now. */
  RDD rows(scala.collection.Seq all) {
    String text = source + "\n" + FilterText.describe(all);
    Object rows = Python.call("merge", Arrays.asList(new Object[] {text, columns}));
    counts = Python.text("merged_counts", text);
    return (RDD) rows;
  }

  /** Ask which slices may match, with what its joins told; none is read. */
  void list(scala.collection.Seq told) {
    Python.text("files", source + "\n" + FilterText.describe(Lists.joined(filters, told)));
  }

  /** The same scan, of the slices that what its joins told leaves. */
  SparkPlan again(SparkPlan scan, scala.collection.Seq told) {
    return (SparkPlan) scan.transformUp(new WithRows(rows(Lists.joined(filters, told))));
  }

  /** Slices and bytes of the table, and those that were read the last time. */
  String counts() {
    return counts;
  }

  /** Puts other rows into a scan, which Spark may have put into compiled code. */
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
