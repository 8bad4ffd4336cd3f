package lakedex.jvm;

import java.util.function.BiFunction;

/**
 * The way from the JVM to lakedex in the driver's Python process.
 *
 * One callback serves all sessions; the first member of every message names the session. What
 * Python refuses comes back as a text after an exclamation mark and is thrown here.
 */
public final class Python {

  private static volatile BiFunction callback = null;

  private Python() {}

  public static void listen(BiFunction newCallback) {
    callback = newCallback;
  }

  public static Object call(String verb, Object message) {
    BiFunction present = callback;
    if (present == null) {
      throw new IllegalStateException("lakedex is not attached: call lakedex.attach(spark)");
    }
    Object answer = present.apply(verb, message);
    if (answer instanceof String && ((String) answer).startsWith("!")) {
      throw new IllegalArgumentException(((String) answer).substring(1));
    }
    return answer;
  }

  public static String text(String verb, Object message) {
    return (String) call(verb, message);
  }
}
