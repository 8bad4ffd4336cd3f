package lakedex.jvm;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.RowDataSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;

/** Plans the scans of pinned tables as Spark does, and puts a node over them that tells of them. */
public final class LakeStrategy extends SparkStrategy {

  /** Give a session the strategy, instead of one that it had before. */
  public static void install(@SESSION@ session) {
    List strategies = new ArrayList();
    scala.collection.Iterator each = session.experimental().extraStrategies().iterator();
    while (each.hasNext()) {
      Object strategy = each.next();
      if (!(strategy instanceof LakeStrategy)) {
        strategies.add(strategy);
      }
    }
    strategies.add(new LakeStrategy());
    session.experimental().extraStrategies_$eq((@SEQ@) Lists.scala(strategies));
  }

  public @SEQ@ apply(LogicalPlan plan) {
    BaseRelation relation = relation(plan);
    @SEQ@ planned = Lists.scala(new ArrayList());
    if (isNative(relation)) {
      planned = FileSourceStrategy$.MODULE$.apply(plan);
    } else if (relation instanceof MergedRelation) {
      planned = DataSourceStrategy$.MODULE$.apply(plan);
    }
    List told = new ArrayList();
    scala.collection.Iterator each = planned.iterator();
    while (each.hasNext()) {
      told.add(((SparkPlan) each.next()).transformUp(new Cover()));
    }
    return Lists.scala(told);
  }

  private static BaseRelation relation(LogicalPlan plan) {
    LogicalPlan below = plan;
    while (below instanceof Project || below instanceof Filter) {
      below = (LogicalPlan) below.children().apply(0);
    }
    return below instanceof LogicalRelation ? ((LogicalRelation) below).relation() : null;
  }

  static boolean isNative(BaseRelation relation) {
    return relation instanceof HadoopFsRelation
        && ((HadoopFsRelation) relation).location() instanceof LakeFileIndex;
  }

  public static final class Cover extends scala.runtime.AbstractPartialFunction {

    public boolean isDefinedAt(Object node) {
      return node instanceof FileSourceScanExec || node instanceof RowDataSourceScanExec;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof FileSourceScanExec) {
        return new LakeScanExec((SparkPlan) node, "");
      }
      if (node instanceof RowDataSourceScanExec) {
        // It was made a moment ago, in this thread.
        return new LakeScanExec((SparkPlan) node, MergedRelation.lastCounts());
      }
      return otherwise.apply(node);
    }
  }
}
