package hudi;

import lakedex.jvm.Contract;
import lakedex.jvm.LakeSource;

/** The source of `format("hudi")` and `USING hudi`, unless Hudi's own bundle is there. */
public final class DefaultSource extends LakeSource {

  public String shortName() {
    return Contract.HUDI_SOURCE;
  }
}
