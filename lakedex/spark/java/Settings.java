package lakedex.jvm;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.internal.SQLConf;

/** The settings of a session on which a plan depends, in one call. */
public final class Settings {

  private Settings() {}

  /**
   * The time zone, then the values of some settings, UNSET_SETTING where one is not set, then all
   * settings whose name begins with one of some prefixes, each with its name and value.
   */
  public static String read(@SESSION@ session, String names, String prefixes) {
    SQLConf settings = session.sessionState().conf();
    StringBuilder text = new StringBuilder(settings.sessionLocalTimeZone());
    String[] each = names.split(Contract.SEPARATOR);
    for (int i = 0; i < each.length; i++) {
      text.append(Contract.SEPARATOR);
      text.append(settings.getConfString(each[i], Contract.UNSET_SETTING));
    }
    Object[] pairs;
    synchronized (settings.settings()) {
      pairs = new TreeMap(settings.settings()).entrySet().toArray();
    }
    String[] starts = prefixes.split(Contract.SEPARATOR);
    for (int i = 0; i < pairs.length; i++) {
      Map.Entry pair = (Map.Entry) pairs[i];
      String name = (String) pair.getKey();
      for (int j = 0; j < starts.length; j++) {
        if (name.startsWith(starts[j])) {
          String line = name + Contract.FIELD_SEPARATOR + pair.getValue();
          text.append(Contract.SEPARATOR).append(line.replace(Contract.SEPARATOR, " "));
          break;
        }
      }
    }
    return text.toString();
  }
}
