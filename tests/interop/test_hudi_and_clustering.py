"""Real Hudi on tables that lakedex clustered, and on plans that a dead lakedex left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.services.clustering import cluster_table
from tests.interop.handing_over import (
    TYPES,
    assert_holds,
    by_hudi,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)
from tests.interop.reading import ask
from tests.support.killing import Watch, changes_of, finish, start

SMALL_FILES = {
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "3000",
    "hoodie.parquet.max.file.size": "6500",
    "hoodie.parquet.small.file.limit": "0",
}
FIRST, CHANGED = rows(0, 400, 1), rows(100, 130, 2)


def cluster_job(path: str) -> None:
    """A clustering for a process of its own."""
    cluster_table(writer_of(path, SMALL_FILES), ["n", "s"], "zorder")


def written(path: str, kind: str) -> None:
    """A table of several files in each partition, and log files where it has them."""
    make_table(path, kind).bulk_insert(source(FIRST))
    writer_of(path, SMALL_FILES).upsert(source(CHANGED))


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_reads_and_writes_what_was_clustered(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    written(path, kind)
    cluster_job(path)
    assert_holds(spark, path, merged(FIRST, CHANGED))
    assert len(lakedex.open(path).files()) >= 8
    for predicate, most in {"id = 'k123'": 1, "n between 2000 and 2030": 2}.items():
        answer, plain = ask(spark, path, predicate), ask(spark, path, predicate, skipping=False)
        assert answer.ids == plain.ids, predicate
        assert 0 < answer.files <= most < plain.files, predicate
    news = rows(390, 420, 3)
    hudi_writes(spark, path, news, tmp_path)
    expected = merged(FIRST, CHANGED, news)
    assert_holds(spark, path, expected)
    cluster_table(writer_of(path, SMALL_FILES), "s", "linear")
    assert_holds(spark, path, expected)
    last = rows(0, 20, 4)
    hudi_writes(spark, path, last, tmp_path)
    assert_holds(spark, path, merged(FIRST, CHANGED, news, last))


def killed(path: str, folder: Path, text: str) -> str:
    """A clustering whose process dies after it has made a file; answers its instant."""
    copy = folder / "copy"
    shutil.copytree(path, copy)
    changes = changes_of(cluster_job, str(copy), result=folder / "changes")
    number = next(
        at
        for at, change in enumerate(changes)
        if change.startswith("create") and text in f"/{change.partition(' ')[2]}"
    )
    child = start(cluster_job, path, watch=Watch(kill_at=number, kill_after=True))
    assert finish(child) == -9
    (pending,) = lakedex.open(path).timeline.pending()
    return pending.requested_time


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_carries_out_the_plan_of_a_dead_clustering(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    written(path, kind)
    instant = killed(path, tmp_path, ".clustering.requested")
    assert by_hudi(spark, path) == merged(FIRST, CHANGED)
    spark.sql(f"call run_clustering(path => '{path}', op => 'execute')").collect()
    timeline = lakedex.open(path).timeline
    assert timeline.is_completed(instant)
    assert timeline.commit_metadata(timeline.find(instant)).is_clustering
    assert by_hudi(spark, path) == merged(FIRST, CHANGED)
    news = rows(110, 140, 3)
    writer_of(path).upsert(source(news))
    assert lakedex.open(path).timeline.is_completed(instant)
    assert_holds(spark, path, merged(FIRST, CHANGED, news))


def test_a_dead_clustering_is_cleared_away_for_hudi_too(spark, tmp_path):
    path = str(tmp_path / "t")
    written(path, "cow")
    instant = killed(path, tmp_path, "/p=p")
    news = rows(110, 140, 3)
    assert by_hudi(spark, path) == merged(FIRST, CHANGED)
    refused = str(tmp_path / "refused")
    shutil.copytree(path, refused)
    with pytest.raises(Exception, match=r"(?i)clustering"):
        hudi_writes(spark, refused, news, tmp_path)
    writer_of(path).upsert(source(rows(400, 401, 1)))
    assert lakedex.open(path).timeline.find(instant) is None
    hudi_writes(spark, path, news, tmp_path)
    assert not lakedex.open(path).timeline.pending()
    assert_holds(spark, path, merged(FIRST, CHANGED, rows(400, 401, 1), news))
