package lakedex.jvm;

import java.time.Instant;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;

/** The changes of a time zone's offset, from this JVM's time zone database. */
public final class Zones {

  private Zones() {}

  /** The offset at a time, then each change up to another and the offset after it, in seconds. */
  public static String changes(String zone, long start, long end) {
    Instant first = Instant.ofEpochSecond(start);
    ZoneRules rules = DateTimeUtils.getZoneId(zone).getRules();
    StringBuilder text = new StringBuilder();
    text.append(rules.getOffset(first).getTotalSeconds());
    ZoneOffsetTransition next = rules.nextTransition(first);
    while (next != null && next.toEpochSecond() < end) {
      text.append(Contract.NUMBER_SEPARATOR).append(next.toEpochSecond());
      text.append(Contract.NUMBER_SEPARATOR).append(next.getOffsetAfter().getTotalSeconds());
      next = rules.nextTransition(next.getInstant());
    }
    return text.toString();
  }
}
