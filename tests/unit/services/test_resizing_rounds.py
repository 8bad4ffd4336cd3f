"""Many rounds of splits and merges with writes between, and every index beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.services.clustering.resizing import resize_buckets, run_resize, schedule_resize
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.write.resizing import ResizeLimits
from tests.support.bucket_checks import check_buckets, rings_of
from tests.support.buckets import assert_in_buckets
from tests.support.history import History, create, writer_of
from tests.support.row_model import assert_holds
from tests.support.turns import part_of
from tests.support.write_shapes import Shape

SPLIT_ALL = ResizeLimits(1, split_above=0, merge_below=0, most=12)
MERGE_ALL = ResizeLimits.of(1 << 20, split=2.0, merge=0.5)
BY_RECORDS = ResizeLimits.of(6_000, split=1.2, merge=0.1)
FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
BY_PARTITION = {"hoodie.metadata.record.level.index.enable": "true"}
WHOLE = {"hoodie.metadata.global.record.level.index.enable": "true"}


def split_all(writer) -> None:
    instant = schedule_resize(writer, SPLIT_ALL, MiddlePolicy())
    if instant is not None:
        run_resize(writer, instant)


@pytest.mark.parametrize(
    ("kind", "engine", "style"),
    part_of(
        [
            ("cow", "BUCKET_CONSISTENT", "nonpartitioned"),
            ("cow", "BUCKET_EXTENDIBLE", "composite"),
            ("mor", "BUCKET_CONSISTENT", "simple"),
            ("mor", "BUCKET_CONSISTENT", "nonpartitioned"),
            ("mor", "BUCKET_EXTENDIBLE", "nonpartitioned"),
        ],
        2,
    ),
)
def test_rounds_of_splits_and_merges_between_writes(kind, engine, style, tmp_path):
    # cases B50, B54, B70
    shape, path = Shape(kind, engine, style), str(tmp_path)
    history = History(shape, seed=5, rows=240)
    # One over the whole table knows one place of a key, which may be in several partitions.
    is_whole = style == "nonpartitioned"
    properties = FILTERS | (WHOLE if is_whole else BY_PARTITION)
    writer = writer_of(create(shape, path, properties))
    if is_whole:
        create_index(writer, "on_name", "name")
    create_index(writer, "on_n", "n", using="bitmap")
    create_index(writer, "on_length", "name", using="column_stats", options={"expr": "length"})
    counts = set()
    for number, commit in enumerate(history.commits(9)):
        commit.write(shape, writer)
        step = number % 4
        if step == 0:
            split_all(writer)
        elif step == 1:
            resize_buckets(writer, BY_RECORDS)
        elif step == 2:
            resize_buckets(writer, MERGE_ALL)
        elif kind == "mor":
            compact_table(writer)
        assert_holds(path, history.model)
        assert_in_buckets(path, shape.key_fields)
        counts.update(len(ring.nodes) for ring in rings_of(path).values())
    check_buckets(path)
    assert min(counts) <= 2
    assert max(counts) >= 8
    assert lakedex.open(path).verify().ok
    assert Path(path, ".hoodie/.bucket_index").is_dir()
