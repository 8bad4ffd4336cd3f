package lakedex.jvm;

import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;

/** Lets the scans of a physical plan list their files, without a job. */
public final class Scans {

  private Scans() {}

  public static void list(SparkPlan plan) {
    SparkPlan own = plan;
    if (plan instanceof AdaptiveSparkPlanExec) {
      own = ((AdaptiveSparkPlanExec) plan).inputPlan();
    }
    if (own instanceof LakeScanExec) {
      ((LakeScanExec) own).list();
    }
    listAll(own.children());
    listAll(own.subqueries());
  }

  private static void listAll(scala.collection.Seq plans) {
    scala.collection.Iterator each = plans.iterator();
    while (each.hasNext()) {
      Object next = each.next();
      if (next instanceof SparkPlan) {
        list((SparkPlan) next);
      }
    }
  }
}
