package lakedex.jvm;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.internal.SQLConf;

/** Settings of a session, all that a plan depends on in one call. */
public final class Settings {

  private Settings() {}

  /**
   * The time zone, then the values of some names, where one that is not set is true, then all
   * settings whose name begins with one of some prefixes: a name, a tab and its value.
   */
  public static String read(@SESSION@ session, String names, String prefixes) {
    SQLConf settings = session.sessionState().conf();
    StringBuilder text = new StringBuilder(settings.sessionLocalTimeZone());
    String[] each = names.split("\n");
    for (int i = 0; i < each.length; i++) {
      text.append('\n').append(settings.getConfString(each[i], "true"));
    }
    Object[] told;
    synchronized (settings.settings()) {
      told = new TreeMap(settings.settings()).entrySet().toArray();
    }
    String[] starts = prefixes.split("\n");
    for (int i = 0; i < told.length; i++) {
      Map.Entry pair = (Map.Entry) told[i];
      String name = (String) pair.getKey();
      for (int j = 0; j < starts.length; j++) {
        if (name.startsWith(starts[j])) {
          String line = name + "\t" + pair.getValue();
          text.append('\n').append(line.replace('\n', ' '));
          break;
        }
      }
    }
    return text.toString();
  }
}
