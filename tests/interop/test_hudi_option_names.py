"""The list of option names against the options that Hudi's bundle declares."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.hudi_options import JAR, declared_options, differences


# cases B82, B83: misspelled option; option without effect
def test_every_option_of_the_bundle_has_a_verdict():
    if not JAR.exists():
        pytest.skip("the bundle is not in place as a jar")
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    declared = declared_options(JAR, Path(pyspark.origin).parent / "jars")
    assert len(declared) > 600
    assert not differences(declared)
