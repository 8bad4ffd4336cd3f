package lakedex.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/** Drops what a session has cached of a table that was changed. */
public final class Caches {

  private static final ObjectMapper JSON = new ObjectMapper();

  private Caches() {}

  public static void refresh(@SESSION@ session, String path) throws Exception {
    String location = location(path);
    dropRelations(session.sessionState().catalog(), location);
    CacheManager manager = session.sharedState().cacheManager();
    if (manager.isEmpty()) {
      return;
    }
    scala.collection.Iterator each =
        ((scala.collection.Iterable) invokeHidden(manager, CacheManager.class, "cachedData")).iterator();
    List stale = new ArrayList();
    while (each.hasNext()) {
      collect(((CachedData) each.next()).plan(), location, stale);
    }
    for (int i = 0; i < stale.size(); i++) {
      manager.recacheByPlan(session, (LogicalPlan) stale.get(i));
    }
  }

  /** Names of the catalog are resolved to the table's new columns. */
  private static void dropRelations(SessionCatalog catalog, String location) throws Exception {
    Object cache = invokeHidden(catalog, SessionCatalog.class, "tableRelationCache");
    Method asMap = Class.forName("org.sparkproject.guava.cache.Cache").getMethod(
        "asMap", new Class[0]);
    Iterator each = ((Map) asMap.invoke(cache, new Object[0])).values().iterator();
    while (each.hasNext()) {
      List found = new ArrayList();
      collect((LogicalPlan) each.next(), location, found);
      if (!found.isEmpty()) {
        each.remove();
      }
    }
  }

  /** The unpinned relations of a table in a plan. */
  private static void collect(LogicalPlan plan, String location, List found) throws Exception {
    if (plan instanceof LogicalRelation
        && ((LogicalRelation) plan).relation() instanceof TableRelation) {
      TableRelation relation = (TableRelation) ((LogicalRelation) plan).relation();
      String path = JSON.readTree(relation.spec()).get(Contract.PATH_OPTION).asText();
      if (location.equals(location(path))) {
        found.add(plan);
      }
    }
    collectAll(plan.children().iterator(), location, found);
    collectAll(plan.subqueries().iterator(), location, found);
  }

  private static void collectAll(
      scala.collection.Iterator plans, String location, List found)
      throws Exception {
    while (plans.hasNext()) {
      collect((LogicalPlan) plans.next(), location, found);
    }
  }

  private static Object invokeHidden(Object holder, Class kind, String name) throws Exception {
    Method method = null;
    Method[] methods = kind.getDeclaredMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getParameterTypes().length == 0
          && (methods[i].getName().equals(name) || methods[i].getName().endsWith("$$" + name))) {
        method = methods[i];
      }
    }
    if (method == null) {
      throw new NoSuchMethodException(name);
    }
    method.setAccessible(true);
    return method.invoke(holder, new Object[0]);
  }

  /** The same text for all ways to write a path. */
  private static String location(String path) {
    if (path.length() == 0) {
      return "";
    }
    URI uri = new Path(path).toUri();
    String scheme = uri.getScheme() == null || uri.getScheme().equals("file") ? "" : uri.getScheme();
    String host = uri.getAuthority() == null ? "" : uri.getAuthority();
    return (scheme.equals("s3a") ? "s3" : scheme) + "/" + host + "/" + uri.getPath();
  }
}
