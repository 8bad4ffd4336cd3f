"""Random predicates through real `spark.sql`: no file with a matching row is ever ruled out.

For every predicate three answers are held against each other: Spark's own for every row, that of
the translated tree for every row, and the files that a plan over the table's statistics keeps.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakedex
from lakedex.errors import LakedexError
from lakedex.expr import evaluate
from lakedex.expr.tree import TRUE, And, Expr, Or, Unknown
from lakedex.prune import PlanOptions, plan
from tests.spark.filter_lab import ANSI, ZONE, FilterLab
from tests.spark.filter_zoo import FILES, write_zoo, zoo_rows
from tests.spark.random_filters import random_filter

VIEW = "filter_zoo"
BATCH = 16
PARSER = "spark.sql.legacy.timeParserPolicy"


class Judge:
    """One table of small files, its rows as a view of Spark, and the plans over it."""

    def __init__(self, spark, path: str) -> None:
        self.spark = spark
        self.lab = FilterLab(spark)
        self.snapshot = lakedex.open(path).snapshot
        self.rows = lakedex.open(path).to_arrow().sort_by("id").combine_chunks()
        names = {each.base.name: each.partition for each in self.snapshot.slices if each.base}
        files = [f"{path}/{partition}/{name}" for name, partition in names.items()]
        # Older releases ask in which calendar files of others than Spark have their times.
        reader = spark.read.option("datetimeRebaseMode", "CORRECTED")
        self.view = reader.parquet(*files).cache()
        self.view.createOrReplaceTempView(VIEW)
        self.asked = self.pruned = self.unknown = 0

    def truth(self, filters: list[str]) -> list[list[bool]]:
        """For every filter the rows for which Spark says that it is true."""
        columns = ", ".join(f"({each}) as c{at}" for at, each in enumerate(filters))
        rows = self.spark.sql(f"select id, {columns} from {VIEW} order by id").collect()
        return [[row[at + 1] is True for row in rows] for at in range(len(filters))]

    def judge(self, condition: str, truth: list[bool], *, exact: bool) -> None:
        zone = self.spark.conf.get(ZONE)
        query = f"select id from {VIEW} where {condition}"
        found = self.lab.translate(query, self.snapshot.schema)
        said = f"{condition} in {zone}: {found}"
        matching = {name for name, is_true in zip(self.names(), truth, strict=True) if is_true}
        report = plan(self.snapshot, found.predicate, options=PlanOptions(zone))
        assert report.total == FILES
        assert matching <= {each.base.name for each in report.files if each.base}, said
        self.asked += 1
        self.unknown += bool(found.unknown)
        self.pruned += len(report.files) < report.total
        ours = self.ours(found.predicate, zone)
        if ours is not None:
            missed = [at for at, is_true in enumerate(truth) if is_true and not ours[at]]
            assert not missed, f"{said} misses {self.rows.slice(missed[0], 1).to_pylist()}"
            if exact and not found.unknown:
                more = [at for at, is_true in enumerate(ours) if is_true and not truth[at]]
                assert not more, f"{said} takes {self.rows.slice(more[0], 1).to_pylist()}"

    def names(self) -> list[str]:
        return self.rows["_hoodie_file_name"].to_pylist()

    def ours(self, predicate: Expr | None, zone: str) -> list[bool] | None:
        """The rows for which the tree is true; None where it can prune but not be computed."""
        if predicate is None:
            return None
        try:
            mask = evaluate(without_unknown(predicate), self.rows, time_zone=zone)
        except LakedexError:
            return None
        return pc.fill_null(mask, fill_value=False).to_pylist()


def without_unknown(expr: Expr) -> Expr:
    match expr:
        case Unknown():
            return TRUE
        case And(children) | Or(children):
            return replace(expr, children=tuple(map(without_unknown, children)))
        case _:
            return expr


@pytest.fixture(scope="module")
def judge(spark, tmp_path_factory):
    path = write_zoo(tmp_path_factory.mktemp("zoo") / "zoo", zoo_rows())
    judge = Judge(spark, path)
    yield judge
    judge.view.unpersist()
    spark.catalog.dropTempView(VIEW)


@pytest.mark.parametrize(
    ("zone", "ansi"),
    [("UTC", "false"), ("Europe/Berlin", "false"), ("America/New_York", "true")],
)
def test_random_predicates_keep_every_matching_file(judge, setting, zone, ansi):
    setting(ZONE, zone)
    setting(ANSI, ansi)
    setting(PARSER, "CORRECTED")
    judge.asked = judge.pruned = judge.unknown = 0

    @settings(
        max_examples=2,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**40))
    def run(seed):
        dice = random.Random(seed)
        legacy = ansi == "false"
        filters = [random_filter(dice, raising=legacy) for _ in range(BATCH)]
        for condition, truth in zip(filters, judge.truth(filters), strict=True):
            judge.judge(condition, truth, exact=legacy)

    run()
    assert judge.pruned > judge.asked // 4
    assert judge.unknown < judge.asked // 4
