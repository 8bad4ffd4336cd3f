package lakedex.jvm;

import org.apache.spark.sql.execution.streaming.Offset;

/** A position of a stream: the text form of Python's `StreamPosition`. */
public final class LakeOffset extends Offset {

  private final String position;

  public LakeOffset(String position) {
    this.position = position;
  }

  public String json() {
    return position;
  }
}
