package lakedex.jvm;

import org.apache.spark.sql.internal.SQLConf;

/** Settings of a session, all that a plan depends on in one call. */
public final class Settings {

  private Settings() {}

  /** The time zone, then the values of some names; a name that is not set is true. */
  public static String read(@SESSION@ session, String names) {
    SQLConf settings = session.sessionState().conf();
    StringBuilder text = new StringBuilder(settings.sessionLocalTimeZone());
    String[] each = names.split("\n");
    for (int i = 0; i < each.length; i++) {
      text.append('\n').append(settings.getConfString(each[i], "true"));
    }
    return text.toString();
  }
}
