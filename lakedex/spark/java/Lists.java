package lakedex.jvm;

import java.util.ArrayList;
import java.util.List;
import scala.collection.JavaConverters;

/** Lists of Java as those of Scala, in a form that both Scala 2.12 and 2.13 take. */
final class Lists {

  private Lists() {}

  static scala.collection.immutable.Seq scala(List list) {
    scala.collection.mutable.Buffer buffer =
        (scala.collection.mutable.Buffer) JavaConverters.asScalaBufferConverter(list).asScala();
    return (scala.collection.immutable.Seq) buffer.toIndexedSeq();
  }

  /** One list after the other. */
  static scala.collection.immutable.Seq joined(
      scala.collection.Seq first, scala.collection.Seq second) {
    List all = new ArrayList();
    scala.collection.Iterator each = first.iterator();
    while (each.hasNext()) {
      all.add(each.next());
    }
    each = second.iterator();
    while (each.hasNext()) {
      all.add(each.next());
    }
    return scala(all);
  }
}
