package lakedex.jvm;

import java.io.Serializable;
import org.apache.spark.Partition;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionGroup;
import org.apache.spark.rdd.RDD;

/** Puts partitions together that follow each other, so that rows stay in their order. */
public final class Neighbours implements PartitionCoalescer, Serializable {

  public PartitionGroup[] coalesce(int most, RDD parent) {
    Partition[] all = parent.partitions();
    PartitionGroup[] groups = new PartitionGroup[Math.min(most, all.length)];
    int next = 0;
    for (int i = 0; i < groups.length; i++) {
      groups[i] = new PartitionGroup(scala.Option.empty());
      int end = (int) ((i + 1L) * all.length / groups.length);
      for (; next < end; next++) {
        groups[i].partitions().$plus$eq(all[next]);
      }
    }
    return groups;
  }
}
