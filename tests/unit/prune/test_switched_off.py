"""Nothing of an index is used that the caller switches off, by other indexes neither."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.services.index_creating import create_index
from lakedex.services.index_dropping import drop_index
from tests.support.secondary import Trips

SECONDARY = "secondary_index_idx_rider"
COVERING = {"lakedex.covering": "true"}
PREDICATES = ["rider = 'ann'", "rider IN ('bob', 'eve')", "rider IS NULL", "rider >= 'e'"]


@pytest.fixture(scope="module", params=["cow", "mor"])
def template(request, tmp_path_factory) -> Trips:
    made = Trips(tmp_path_factory.mktemp(request.param) / "t", request.param)
    cities = ["oslo", "rio", "lima", "bern"]
    riders = ["ann", "bob", None, "eve"]
    rows = [(f"k{n}", 1, riders[n % 4], cities[n % 4]) for n in range(12)]
    made.writer.insert(made.rows(*rows))
    made.writer.upsert(made.rows(("k0", 2, "ann", "oslo"), ("k1", 2, "eve", "rio")))
    return made


def destroy(trips: Trips, partition: str) -> None:
    """Make a partition of the metadata table unreadable."""
    files = [
        each
        for each in (Path(trips.path) / ".hoodie" / "metadata" / partition).iterdir()
        if each.is_file() and "partition_metadata" not in each.name
    ]
    assert files
    for each in files:
        each.write_bytes(b"?" * each.stat().st_size)


def step(trips: Trips, predicate: str, *without: str) -> tuple[bool, str]:
    """Whether the secondary index was used, and its reason; the rows are those of a scan."""
    whole = lakedex.open(trips.path, options={"without_indexes": {"all"}}).to_arrow(predicate)
    options = lakedex.ReadOptions(without_indexes=frozenset(without), weighs_cost=False)
    table = lakedex.open(trips.path, options=options)
    found = table.to_arrow(predicate)
    assert sorted(found["uuid"].to_pylist()) == sorted(whole["uuid"].to_pylist())
    (used,) = [each for each in table.explain(predicate).steps if each.index == SECONDARY]
    return used.used, used.reason


@pytest.mark.parametrize("covering", [False, True])
def test_a_secondary_index_leaves_a_record_index_alone_that_is_switched_off(
    template, tmp_path, covering
):
    trips = template.copied(tmp_path / "t")
    create_index(trips.writer, "idx_rider", "rider", options=COVERING if covering else None)
    before = {predicate: step(trips, predicate) for predicate in PREDICATES}
    assert all(used for used, _ in before.values())
    destroy(trips, "record_index")
    for predicate in PREDICATES:
        used, reason = step(trips, predicate, "record_index")
        if covering:
            # Its entries name the file groups of their rows.
            assert (used, reason) == before[predicate]
        else:
            assert (used, reason) == (
                False,
                "it needs the record index, which is switched off by the caller",
            )


def test_column_stats_that_are_switched_off_count_no_rows(template, tmp_path):
    trips = template.copied(tmp_path / "t")
    create_index(trips.writer, "idx_rider", "rider")
    destroy(trips, "column_stats")
    for predicate in PREDICATES:
        assert step(trips, predicate, "column_stats")[0]


def test_an_index_is_switched_off_by_the_name_that_it_was_given(template, tmp_path):
    trips = template.copied(tmp_path / "t")
    create_index(trips.writer, "idx_rider", "rider")
    for name in ("idx_rider", "IDX_RIDER", SECONDARY, "secondary_index"):
        assert step(trips, "rider = 'ann'", name) == (False, "switched off by the caller"), name
    with pytest.raises(InvalidInput, match="no index 'idx_ridr'; did you mean 'idx_rider'"):
        lakedex.open(trips.path, options={"without_indexes": ["idx_ridr"]})
    with pytest.raises(InvalidInput, match=r"no index 'other'; it has column_stats, .*idx_rider"):
        lakedex.open(trips.path, options={"without_indexes": ["other"]})
    # A kind that this table has no index of is no mistake.
    lakedex.open(trips.path, options={"without_indexes": ["bloom_filters", "bitmap"]})
    table = lakedex.open(trips.path, options={"without_indexes": ["idx_rider"]})
    drop_index(trips.address, "idx_rider", trips.writer.target().patience)
    assert table.refresh().to_arrow("rider = 'ann'").num_rows


def test_partition_values_are_switched_off(template):
    found = {}
    for without in ((), ("partition_values",)):
        options = lakedex.ReadOptions(without_indexes=without, weighs_cost=False)
        table = lakedex.open(template.path, options=options)
        (first, *_) = table.explain("city = 'oslo'").steps
        found[without] = first.used, first.before - first.after > 0
        assert table.to_arrow("city = 'oslo'").num_rows == 3
    assert found == {(): (True, True), ("partition_values",): (False, False)}
