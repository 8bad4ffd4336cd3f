"""The README's lines and the demo run as they stand, in the session of these tests."""

from __future__ import annotations

import json
from functools import partial

import pytest
from typer.testing import CliRunner

from lakedex.cli import demo
from lakedex.cli.demo_spark import demo_on_spark
from lakedex.cli.main import app
from tests.support.readme import python_blocks


@pytest.fixture(autouse=True)
def _settings_stay(spark):
    """`lakedex.local()` finds this session, and sets what it would give one of its own."""
    before = dict(spark.sparkContext.getConf().getAll())
    names = ["spark.sql.shuffle.partitions", "spark.log.level"]
    kept = {name: spark.conf.get(name, before.get(name)) for name in names}
    yield
    for name, value in kept.items():
        if value is not None:
            spark.conf.set(name, value)
    spark.sparkContext.setLogLevel("OFF")


def test_the_twenty_lines_of_the_readme_run(spark, capsys):
    block = python_blocks("Twenty lines")[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 20
    assert block.rstrip().splitlines()[-1].startswith("assert ")
    spark.catalog.dropTempView("rides")
    exec(compile(block, "README.md", "exec"), {})
    assert "record_index" in capsys.readouterr().out
    spark.sql("DROP TABLE rides")


def test_the_demo_reads_less_with_indexes_and_hudi_rs_agrees(spark, monkeypatch):
    monkeypatch.setattr(demo, "demo_on_spark", partial(demo_on_spark, rows=20_000))
    result = CliRunner().invoke(app, ["demo", "--json"], prog_name="lakedex")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)["spark"]
    assert told["ok"]
    assert told["hudi_rs"]["same_keys"]
    assert [each["same_rows"] for each in told["queries"]] == [True, True]
    key, fares = told["queries"]
    assert key["read"] == 1 < key["file_slices"]
    assert fares["read"] <= fares["file_slices"] // 2
