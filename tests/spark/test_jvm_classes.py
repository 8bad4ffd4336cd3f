"""Java sources compiled in the driver: they see Spark and each other, and bad ones are refused."""

from __future__ import annotations

import pytest

from lakedex.errors import UnsupportedFeature
from lakedex.spark.jvm_classes import compile_classes

BASE = """
package lakedex.jvm.test;
public class Base {
  public static String version() { return org.apache.spark.package$.MODULE$.SPARK_VERSION(); }
}
"""
NEXT = """
package lakedex.jvm.test;
public final class Next extends Base {
  public Next() {}
  public String twice() { return version() + version(); }
}
"""


def test_a_source_may_use_those_before_it(spark):
    classes = compile_classes(spark.sparkContext._jvm, {"Base": BASE, "Next": NEXT})
    found = classes.instance("lakedex.jvm.test.Next")
    assert found.twice() == spark.version * 2
    assert found.version() == spark.version
    assert set(classes.bytecode) == {"lakedex.jvm.test.Base", "lakedex.jvm.test.Next"}
    assert all(code.startswith(b"\xca\xfe\xba\xbe") for code in classes.bytecode.values())


def test_a_source_that_does_not_fit_is_named(spark):
    with pytest.raises(UnsupportedFeature, match=f"Broken on Spark {spark.version}"):
        compile_classes(spark.sparkContext._jvm, {"Broken": "class Broken { int x = y; }"})
