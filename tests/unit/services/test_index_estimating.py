"""Estimates of indexes that do not exist yet, held against the real thing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.index.kinds.secondary import advice as secondary_advice
from lakedex.services import index_estimating
from lakedex.services.index_estimating import estimate_index
from lakedex.write.row_source import ArrowRowSource
from tests.support.secondary import RECORD_INDEX, Trips

ROWS, CITIES, ROWS_A_RIDER = 60_000, 12, 5


@pytest.fixture(scope="module")
def trips(tmp_path_factory) -> Trips:
    """Rows in twelve files, with riders all over them and drivers in one each."""
    schema = pa.schema(
        [
            ("uuid", pa.string()),
            ("ts", pa.int64()),
            ("rider", pa.string()),
            ("driver", pa.int32()),
            ("city", pa.string()),
        ]
    )
    made = Trips(tmp_path_factory.mktemp("made") / "t", "cow", schema=schema)
    numbers = np.arange(ROWS)
    riders = np.random.default_rng(1).permutation(numbers) % (ROWS // ROWS_A_RIDER)
    columns = [
        pa.array([f"trip-{number:07d}" for number in numbers.tolist()]),
        pa.array(np.ones(ROWS, np.int64)),
        pa.array([f"rider-{number}" for number in riders.tolist()]),
        pa.array((numbers // 3).astype(np.int32)),
        pa.array([f"city-{number}" for number in (numbers * CITIES // ROWS).tolist()]),
    ]
    made.writer.bulk_insert(ArrowRowSource(pa.table(columns, schema=schema)))
    return made


@pytest.mark.parametrize("sampled", [4, 24])
@pytest.mark.parametrize("column", ["rider", "driver"])
def test_an_estimate_is_near_the_real_index(trips, tmp_path, monkeypatch, column, sampled):
    monkeypatch.setattr(secondary_advice, "_MOST_SLICES", sampled)
    told = estimate_index(trips.table().snapshot, column)
    own = trips.copied(tmp_path / "t")
    own.index(column)
    (made,) = [each for each in own.table().indexes() if each.kind == "secondary_index"]
    assert told.size_bytes == pytest.approx(made.size_bytes, rel=0.25)
    assert told.file_groups == 2, "what the table keeps"
    assert told.rows == pytest.approx(ROWS, rel=0.05)
    assert told.sampled_rows <= ROWS * sampled / CITIES + 1
    assert told.files == CITIES
    files = 12 * (1 - (11 / 12) ** ROWS_A_RIDER) if column == "rider" else 1.0
    assert told.files_per_value == pytest.approx(files, rel=0.25)
    values = ROWS / ROWS_A_RIDER if column == "rider" else ROWS / 3
    assert told.values == pytest.approx(values, rel=0.25)
    files = index_estimating._COMMIT_FILES + index_estimating._FILES_A_GROUP * told.file_groups
    assert told.build_seconds > files * index_estimating._FILE_SECONDS, "a commit takes longer"


def add_changes(own: Trips, changed: int) -> int:
    """Change the rider of so many rows; how much that adds to the index."""

    def index_bytes() -> int:
        (made,) = [each for each in own.table().indexes() if each.kind == "secondary_index"]
        return made.size_bytes

    before = index_bytes()
    rows = own.table().to_arrow(columns=own.schema.names).slice(0, changed)
    # As long as the others, so that entries are as large.
    moved = pc.utf8_reverse(rows["rider"])
    newer = rows.set_column(2, "rider", moved).set_column(1, "ts", pc.add(rows["ts"], 1))
    own.writer.upsert(ArrowRowSource(newer.cast(own.schema)))
    return index_bytes() - before


@pytest.mark.parametrize("changed", [1, 300, 12_000])
def test_what_a_write_adds_is_near_what_was_told(trips, tmp_path, changed):
    told = estimate_index(trips.table().snapshot, "rider")
    own = trips.copied(tmp_path / "t")
    own.index("rider")
    assert add_changes(own, changed) == pytest.approx(told.write_bytes(changed), rel=0.25)


@pytest.mark.parametrize("changed", [1, 3, 40])
def test_a_write_of_few_changes_adds_to_few_file_groups(tmp_path, changed):
    counts = {name: "12" if "filegroup.count" in name else value
              for name, value in RECORD_INDEX.items()}  # fmt: skip
    own = Trips(tmp_path / "t", properties=counts)
    own.writer.insert(own.rows(*((f"k{n}", 1, f"rider-{n:04d}", "oslo") for n in range(500))))
    told = estimate_index(own.table().snapshot, "rider")
    assert told.file_groups == 12
    own.index("rider")
    added = add_changes(own, changed)
    assert added == pytest.approx(told.write_bytes(changed), rel=0.25 if changed > 12 else 0.4)
    if changed == 1:
        assert told.bytes_per_write > 5 * added, "that is of a write that changes all groups"


def test_an_option_without_effect_on_an_estimate_is_named(trips):
    covering = {"lakedex.covering": "true"}
    for using in ("", "secondary_index"):
        with pytest.raises(InvalidInput, match=r"takes no option 'lakedex\.covering'"):
            estimate_index(trips.table().snapshot, "rider", using=using, options=covering)


def test_growth_is_that_of_a_larger_table(trips, tmp_path):
    """A table of a tenth of the rows, asked for ten times as many."""
    small = Trips(tmp_path / "t", "cow", schema=trips.schema)
    rows = trips.table().to_arrow(columns=trips.schema.names).sort_by("rider")
    chosen = [number for number in range(ROWS) if number // ROWS_A_RIDER % 10 == 0]
    small.writer.bulk_insert(ArrowRowSource(rows.take(chosen)))
    now = estimate_index(trips.table().snapshot, "rider")
    told = estimate_index(small.table().snapshot, "rider", growth=10)
    assert told.rows == pytest.approx(now.rows, rel=0.05)
    assert told.values == pytest.approx(now.values, rel=0.25)
    assert told.size_bytes == pytest.approx(now.size_bytes, rel=0.25)
    assert told.bytes_per_change == pytest.approx(now.bytes_per_change, rel=0.25)
    assert told.files_per_value == pytest.approx(now.files_per_value, rel=0.25)


def test_an_engine_is_tried_out(trips):
    jobs = []

    class Watched(LocalEngine):
        def map(self, label, worker, tasks):
            jobs.append((label, len(tasks)))
            return super().map(label, worker, tasks)

    told = estimate_index(trips.table().snapshot, "rider", engine=Watched(3))
    assert jobs == [("see how long a job takes", 3)] * 2
    assert told.build_seconds > 0


def test_growth_is_taken_into_account(trips):
    snapshot = trips.table().snapshot
    now, later = estimate_index(snapshot, "rider"), estimate_index(snapshot, "rider", growth=10)
    assert later.rows == 10 * now.rows
    assert later.size_bytes > 5 * now.size_bytes
    assert later.file_groups >= now.file_groups


def test_what_cannot_be_estimated_is_told(trips, tmp_path):
    with pytest.raises(InvalidInput, match="no column 'nothing'"):
        estimate_index(trips.table().snapshot, "nothing")
    for growth in (0, -1, float("nan"), float("inf"), "2", None):
        with pytest.raises(InvalidInput, match="growth"):
            estimate_index(trips.table().snapshot, "rider", growth=growth)
    with pytest.raises(InvalidInput, match="no rows"):
        estimate_index(Trips(tmp_path / "t").table().snapshot, "rider")
