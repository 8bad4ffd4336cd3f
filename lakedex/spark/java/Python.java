package lakedex.jvm;

import java.util.function.BiFunction;

/**
 * Calls lakedex in the driver's Python process; `Calls` has a method for each call.
 *
 * One callback serves all sessions; the first member of every message is the session's UUID. An
 * error of Python comes back as a text after a mark and is thrown here.
 */
public final class Python {

  private static volatile BiFunction callback = null;

  private Python() {}

  public static void listen(BiFunction newCallback) {
    callback = newCallback;
  }

  public static Object call(String name, Object message) {
    BiFunction present = callback;
    if (present == null) {
      throw new IllegalStateException(Contract.NOT_ATTACHED);
    }
    Object answer = present.apply(name, message);
    if (answer instanceof String && ((String) answer).startsWith(Contract.REFUSED)) {
      throw new IllegalArgumentException(((String) answer).substring(Contract.REFUSED.length()));
    }
    return answer;
  }
}
