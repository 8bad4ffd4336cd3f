package lakedex;

import lakedex.jvm.LakeSource;

/** The source of `format("lakedex")` and `USING lakedex`. */
public final class DefaultSource extends LakeSource {}
