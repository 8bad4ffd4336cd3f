"""The option names against those that Hudi's bundle declares, and one option by its effect."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from scripts.hudi_options import JAR, declared_options, differences

PREFIX = "hoodie.datasource.write.commitmeta.key.prefix"


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


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_notes_in_commits_are_those_of_hudi(spark, tmp_path, operation):
    """Both engines write one table with the same options; their commits say the same besides."""
    path = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ver",
        "hoodie.datasource.write.operation": operation,
    }
    for notes in ({"_job": "7", "_": ""}, {PREFIX: "note.", "note.job": "8", "note.at": "9"}):
        frame = spark.sql("SELECT 'a' AS id, 1L AS ver")
        frame.write.format("hudi").options(**options, **notes).mode("append").save(path)
        writer = TableWriter(StorageAddress.of(path), options=notes)
        getattr(writer, operation)(ArrowRowSource(pa.table({"id": ["b"], "ver": [1]})))
        timeline = lakedex.open(path).timeline
        theirs, ours = (
            {
                name: value
                for name, value in timeline.commit_metadata(instant).extra.items()
                if name != "schema" and not name.startswith("lakedex.")
            }
            for instant in timeline.write_instants()[-2:]
        )
        copied = {name: value for name, value in notes.items() if name != PREFIX}
        assert theirs == ours == copied
