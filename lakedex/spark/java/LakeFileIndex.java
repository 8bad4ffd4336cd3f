package lakedex.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

/** The base files of a pinned snapshot that a scan has to read, after pruning by indexes. */
public final class LakeFileIndex implements FileIndex {

  private final String session;
  private final String pin;
  private final String root;
  private final long size;
  private final Map counts = new ConcurrentHashMap();
  private static final ThreadLocal scanFilters = new ThreadLocal();

  public LakeFileIndex(String session, String pin, String root, long size) {
    this.session = session;
    this.pin = pin;
    this.root = root;
    this.size = size;
  }

  String session() {
    return session;
  }

  String pin() {
    return pin;
  }

  public @SEQ@ rootPaths() {
    return Lists.scala(Arrays.asList(new Object[] {new Path(root)}));
  }

  /** The counts of a listing with these filters, as `Contract` orders them. */
  String counts(String filters) {
    String found = (String) counts.get(filters);
    return found == null ? "" : found;
  }

  /** Fails if files that were listed with these filters a while ago are gone now. */
  void check(String filters) {
    if (counts.containsKey(filters)) {
      Calls.checkFiles(session, pin, filters);
    }
  }

  /**
   * Sets all filters of a scan for the listings of this thread; null for none.
   *
   * Spark leaves out those with a subquery, whose value is known by the time a scan runs.
   */
  static void setFilters(String filters) {
    scanFilters.set(filters);
  }

  public @SEQ@ listFiles(@SEQ@ partitionFilters, @SEQ@ dataFilters) {
    String all = (String) scanFilters.get();
    String filters = all == null
        ? FilterText.describe(Lists.joined(partitionFilters, dataFilters)) : all;
    String left = Calls.listFiles(session, pin, filters);
    counts.put(filters, left.substring(0, left.indexOf(Contract.SEPARATOR)));
    Object[] directories = new Object[] {
      new PartitionDirectory(InternalRow.empty(), (@SEQ@) Lists.scala(statuses(left)))
    };
    return Lists.scala(Arrays.asList(directories));
  }

  /** After the counts, a line of two fields is a file and its size, one of one field its folder. */
  private List statuses(String text) {
    scala.collection.immutable.Map none = scala.collection.immutable.Map$.MODULE$.empty();
    List found = new ArrayList();
    String folder = root;
    int start = text.indexOf(Contract.SEPARATOR) + 1;
    while (start < text.length()) {
      int end = text.indexOf(Contract.SEPARATOR, start);
      int tab = text.lastIndexOf(Contract.FIELD_SEPARATOR, end);
      if (tab < start) {
        folder = root + "/" + text.substring(start, end);
      } else {
        long length = Long.parseLong(text.substring(tab + 1, end));
        Path path = new Path(folder + "/" + text.substring(start, tab));
        FileStatus status = new FileStatus(length, false, 1, 134217728L, 0L, path);
        found.add(new FileStatusWithMetadata(status, none));
      }
      start = end + 1;
    }
    return found;
  }

  public String[] inputFiles() {
    List statuses = statuses(
        Calls.listFiles(session, pin, FilterText.describe(Lists.scala(new ArrayList()))));
    String[] paths = new String[statuses.size()];
    for (int i = 0; i < paths.length; i++) {
      paths[i] = ((FileStatusWithMetadata) statuses.get(i)).fileStatus().getPath().toString();
    }
    return paths;
  }

  public void refresh() {}

  public long sizeInBytes() {
    return size;
  }

  public StructType partitionSchema() {
    return new StructType();
  }

  public scala.Option metadataOpsTimeNs() {
    return scala.Option.empty();
  }

  public boolean equals(Object other) {
    return other instanceof LakeFileIndex && ((LakeFileIndex) other).pin.equals(pin);
  }

  public int hashCode() {
    return pin.hashCode();
  }

  public String toString() {
    return "lakedex " + pin;
  }
}
