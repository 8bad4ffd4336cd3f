package lakedex.jvm;

import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.sources.BaseRelation;

/** Tells the relations of pinned tables from all others. */
final class LakeRelations {

  private LakeRelations() {}

  static boolean isOurs(BaseRelation relation) {
    return source(relation) != null;
  }

  /** Session and pin of a table, as the first lines of a message; null if it is not one of ours. */
  static String source(BaseRelation relation) {
    if (relation instanceof MergedRelation) {
      return ((MergedRelation) relation).source();
    }
    boolean isNative = relation instanceof HadoopFsRelation
        && ((HadoopFsRelation) relation).location() instanceof LakeFileIndex;
    return isNative ? ((LakeFileIndex) ((HadoopFsRelation) relation).location()).source() : null;
  }
}
