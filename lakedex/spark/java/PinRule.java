package lakedex.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;

/**
 * Replaces each table in a plan by relations that are pinned to one snapshot.
 *
 * All parts of a query, its subqueries too, are optimised under one tracker, so a table is pinned
 * once for each tracker. Where a table needs both of Spark's reader and ours, filters and columns
 * are pushed into the two once more: Spark's own rules for that have run already.
 */
public final class PinRule extends Rule {

  private static final int MOST_PUSHES = 8;
  /** A missing file of a snapshot is an error, whatever the session does with other files. */
  private static final scala.collection.immutable.Map OPTIONS =
      (scala.collection.immutable.Map)
          scala.collection.immutable.Map$.MODULE$.empty().updated("ignoreMissingFiles", "false");
  private static final Map pins = new WeakHashMap();

  private final @SESSION@ session;

  public PinRule(@SESSION@ session) {
    this.session = session;
  }

  /** Adds the rule to a session, or replaces the one that it has. */
  public static void install(@SESSION@ session) {
    List rules = new ArrayList();
    scala.collection.Iterator each = session.experimental().extraOptimizations().iterator();
    while (each.hasNext()) {
      Object rule = each.next();
      if (!(rule instanceof PinRule)) {
        rules.add(rule);
      }
    }
    rules.add(new PinRule(session));
    session.experimental().extraOptimizations_$eq((@SEQ@) Lists.scala(rules));
  }

  public TreeNode apply(TreeNode plan) {
    Swap swap = new Swap(session, pinned());
    // Runtime filters of joins are subqueries that no other rule will see any more.
    LogicalPlan swapped = (LogicalPlan) ((LogicalPlan) plan).transformUpWithSubqueries(swap);
    if (swap.madeUnion) {
      swapped = pushed(swapped);
    }
    // Spark runs its rules until nothing changes; dynamic filters are added once.
    return swap.madeAny ? JoinKeys.withFilters(swapped) : swapped;
  }

  private static LogicalPlan pushed(LogicalPlan plan) {
    LogicalPlan swapped = plan;
    for (int i = 0; i < MOST_PUSHES; i++) {
      LogicalPlan pushed = ColumnPruning$.MODULE$.apply(
          PushDownPredicates$.MODULE$.apply(swapped));
      if (pushed.fastEquals(swapped)) {
        return pushed;
      }
      swapped = pushed;
    }
    return swapped;
  }

  private static Map pinned() {
    scala.Option tracker = QueryPlanningTracker.get();
    if (tracker.isEmpty()) {
      return new HashMap();
    }
    synchronized (pins) {
      Map found = (Map) pins.get(tracker.get());
      if (found == null) {
        found = new HashMap();
        pins.put(tracker.get(), found);
      }
      return found;
    }
  }

  public static final class Swap extends scala.runtime.AbstractPartialFunction {

    private final @SESSION@ session;
    private final Map pinned;
    public boolean madeAny = false;
    public boolean madeUnion = false;

    public Swap(@SESSION@ session, Map pinned) {
      this.session = session;
      this.pinned = pinned;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof LogicalRelation
          && ((LogicalRelation) node).relation() instanceof TableRelation;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? swapped((LogicalRelation) node) : otherwise.apply(node);
    }

    private LogicalPlan swapped(LogicalRelation node) {
      madeAny = true;
      TableRelation table = (TableRelation) node.relation();
      StructType columns = table.schema();
      String[] pin = pin(table);
      String name = pin[Contract.PIN_NAME];
      String readers = pin[Contract.PIN_READERS];
      long nativeSize = Long.parseLong(pin[Contract.PIN_NATIVE_SIZE]);
      long mergedSize = Long.parseLong(pin[Contract.PIN_MERGED_SIZE]);
      BaseRelation merged = new MergedRelation(
          table.sqlContext(), table.session(), name, columns, mergedSize);
      if (readers.equals(Contract.READERS_MERGED)) {
        return with(node, merged);
      }
      HadoopFsRelation read = new HadoopFsRelation(
          new LakeFileIndex(table.session(), name, pin[Contract.PIN_ROOT], nativeSize),
          new StructType(),
          columns,
          scala.Option.empty(),
          new ParquetFileFormat(),
          OPTIONS,
          session);
      if (readers.equals(Contract.READERS_NATIVE)) {
        return with(node, read);
      }
      madeUnion = true;
      Object[] both = new Object[] {
        with(node, read), with((LogicalRelation) node.newInstance(), merged)
      };
      return new Union((@SEQ@) Lists.scala(Arrays.asList(both)), false, false);
    }

    /** The pin of a table, the same for all parts of a query. */
    private String[] pin(TableRelation table) {
      String[] found = (String[]) pinned.get(table.spec());
      if (found == null) {
        found = Calls.pin(table.session(), table.spec());
        pinned.put(table.spec(), found);
      }
      return found;
    }

    /** The same node with another relation; its other members differ between releases. */
    private static LogicalPlan with(LogicalRelation node, BaseRelation relation) {
      Object[] members = new Object[node.productArity()];
      for (int i = 0; i < members.length; i++) {
        members[i] = node.productElement(i);
      }
      members[0] = relation;
      return (LogicalPlan) node.makeCopy(members);
    }
  }
}
