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
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;

/** Plans the scans of pinned tables as Spark does, with a `LakeScanExec` above each of them. */
public final class LakeStrategy extends SparkStrategy {

  /** Adds the strategy to a session, or replaces the one that it has. */
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
    List covered = new ArrayList();
    if (!PinnedRelations.isOurs(relation)) {
      return Lists.scala(covered);
    }
    List dynamicFilters = new ArrayList();
    LogicalPlan scan = JoinKeys.withoutFilters(plan, dynamicFilters);
    MergedRelation.postpone(!dynamicFilters.isEmpty());
    try {
      @SEQ@ planned = relation instanceof MergedRelation
          ? DataSourceStrategy$.MODULE$.apply(scan) : FileSourceStrategy$.MODULE$.apply(scan);
      scala.collection.Iterator each = planned.iterator();
      while (each.hasNext()) {
        SparkPlan next = (SparkPlan) each.next();
        covered.add(next.transformUp(new Cover(Lists.scala(dynamicFilters))));
      }
    } finally {
      MergedRelation.postpone(false);
    }
    return Lists.scala(covered);
  }

  private static BaseRelation relation(LogicalPlan plan) {
    LogicalPlan below = plan;
    while (below instanceof Project || below instanceof Filter) {
      below = (LogicalPlan) below.children().apply(0);
    }
    return below instanceof LogicalRelation ? ((LogicalRelation) below).relation() : null;
  }

  public static final class Cover extends scala.runtime.AbstractPartialFunction {

    private final @SEQ@ dynamicFilters;

    public Cover(@SEQ@ dynamicFilters) {
      this.dynamicFilters = dynamicFilters;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof FileSourceScanExec || node instanceof RowDataSourceScanExec;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof FileSourceScanExec) {
        return new LakeScanExec((SparkPlan) node, dynamicFilters, null);
      }
      if (node instanceof RowDataSourceScanExec) {
        // It was made a moment ago, in this thread.
        return new LakeScanExec((SparkPlan) node, dynamicFilters, MergedRelation.last());
      }
      return otherwise.apply(node);
    }
  }
}
