package lakedex;

import lakedex.jvm.LakeSource;

/** What `format("lakedex")` and `USING lakedex` find. */
public final class DefaultSource extends LakeSource {}
