package hudi;

import lakedex.jvm.LakeSource;

/** What `format("hudi")` and `USING hudi` find, unless Hudi's own bundle is there. */
public final class DefaultSource extends LakeSource {

  public String shortName() {
    return "hudi";
  }
}
