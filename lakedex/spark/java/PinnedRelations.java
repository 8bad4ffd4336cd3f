package lakedex.jvm;

import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.sources.BaseRelation;

/** Recognises the relations of pinned tables. */
final class PinnedRelations {

  private PinnedRelations() {}

  static boolean isOurs(BaseRelation relation) {
    return relation instanceof MergedRelation || isNative(relation);
  }

  private static boolean isNative(BaseRelation relation) {
    return relation instanceof HadoopFsRelation
        && ((HadoopFsRelation) relation).location() instanceof LakeFileIndex;
  }

  /** The session of one of our relations. */
  static String session(BaseRelation relation) {
    return isNative(relation) ? files(relation).session() : ((MergedRelation) relation).session();
  }

  /** The pin of one of our relations. */
  static String pin(BaseRelation relation) {
    return isNative(relation) ? files(relation).pin() : ((MergedRelation) relation).pin();
  }

  private static LakeFileIndex files(BaseRelation relation) {
    return (LakeFileIndex) ((HadoopFsRelation) relation).location();
  }
}
