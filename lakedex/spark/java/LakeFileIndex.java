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

/** The base files of a pinned snapshot that a scan has to read, as lakedex's indexes say. */
public final class LakeFileIndex implements FileIndex {

  private final String session;
  private final String pin;
  private final String root;
  private final long size;
  private final Map counts = new ConcurrentHashMap();
  private static final ThreadLocal told = new ThreadLocal();

  public LakeFileIndex(String session, String pin, String root, long size) {
    this.session = session;
    this.pin = pin;
    this.root = root;
    this.size = size;
  }

  /** Session and pin, as the first lines of a message. */
  String source() {
    return session + "\n" + pin;
  }

  public @SEQ@ rootPaths() {
    return Lists.scala(Arrays.asList(new Object[] {new Path(root)}));
  }

  /** Files and bytes of the table, and those that a listing with these filters left. */
  String counts(String filters) {
    String found = (String) counts.get(filters);
    return found == null ? "" : found;
  }

  /** Refuse to read files that were listed a while ago and are gone now. */
  void check(String filters) {
    if (counts.containsKey(filters)) {
      Python.call("check", session + "\n" + pin + "\n" + filters);
    }
  }

  /**
   * Tell the listings of this thread all filters of their scan, until they are forgotten.
   *
   * Spark leaves out those with a subquery, whose value is known by the time a scan runs.
   */
  static void tell(String filters) {
    told.set(filters);
  }

  public @SEQ@ listFiles(@SEQ@ partitionFilters, @SEQ@ dataFilters) {
    String all = (String) told.get();
    String filters = all == null
        ? FilterText.describe(Lists.joined(partitionFilters, dataFilters)) : all;
    String left = Python.text("files", session + "\n" + pin + "\n" + filters);
    counts.put(filters, left.substring(0, left.indexOf('\n')));
    Object[] directories = new Object[] {
      new PartitionDirectory(InternalRow.empty(), (@SEQ@) Lists.scala(statuses(left)))
    };
    return Lists.scala(Arrays.asList(directories));
  }

  /** After the counts, a line without a tab names a folder, one with a tab a file and its size. */
  private List statuses(String text) {
    scala.collection.immutable.Map none = scala.collection.immutable.Map$.MODULE$.empty();
    List found = new ArrayList();
    String folder = root;
    int start = text.indexOf('\n') + 1;
    while (start < text.length()) {
      int end = text.indexOf('\n', start);
      int tab = text.lastIndexOf('\t', end);
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
        Python.text("files", session + "\n" + pin + "\n{\"nodes\":[],\"roots\":[]}"));
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
