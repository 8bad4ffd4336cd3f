"""The example of RFC-77, entry by entry: what is built, what a write adds, what is left merged."""

from __future__ import annotations

import pyarrow as pa

from lakedex.format.logfile import BlockKind, decode_delete_block
from tests.support.secondary import Trips

SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("rider", pa.string()),
        ("city", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
CHENNAI, SECOND_CHENNAI = (
    "c8abbe79-8d89-47ea-b4ce-4d224bae5bfa",
    "e3cf430c-889d-4015-bc98-59bdce1e530c",
)
ANGELES, MOVING = "9909a8b1-2d15-4d3d-8ec9-efc48c536a01", "9809a8b1-2d15-4d3d-8ec9-efc48c536a01"
SFO, LEAVING = "334e26e9-8355-45cc-97c6-c31daf0df330", "334e26e9-8355-45cc-97c6-c31daf0df329"
INDEX = "secondary_index_idx_city"


def test_trips_table(tmp_path):
    trips = Trips(tmp_path / "t", "mor", schema=SCHEMA, partition_by=())
    cities = {
        CHENNAI: "chennai",
        ANGELES: "los-angeles",
        MOVING: "los-angeles",
        SFO: "sfo",
        LEAVING: "sfo",
    }
    trips.writer.insert(trips.rows(*((key, 1, "r", city, False) for key, city in cities.items())))
    trips.index("city")
    assert trips.entries("city") == sorted(f"{city}${key}" for key, city in cities.items())
    trips.writer.upsert(
        trips.rows(
            (LEAVING, 2, "r", "sfo", True),
            (SECOND_CHENNAI, 2, "r", "chennai", False),
            (MOVING, 2, "r", "austin", False),
        )
    )
    came, went = logged(trips)
    assert came == [f"austin${MOVING}", f"chennai${SECOND_CHENNAI}"]
    assert went == [f"los-angeles${MOVING}", f"sfo${LEAVING}"]
    assert trips.entries("city") == [
        f"austin${MOVING}",
        f"chennai${CHENNAI}",
        f"chennai${SECOND_CHENNAI}",
        f"los-angeles${ANGELES}",
        f"sfo${SFO}",
    ]
    trips.assert_whole()


def logged(trips: Trips) -> tuple[list[str], list[str]]:
    """The entries and the tombstones in the log files of the index."""
    metadata = trips.table().snapshot.metadata
    came: list[str] = []
    went: list[str] = []
    for group in metadata.groups(INDEX):
        reader = metadata.group_reader(INDEX, group.file_id)
        for block in reader.log_blocks:
            if block.kind is BlockKind.DELETE:
                went += decode_delete_block(block).keys.to_pylist()
            else:
                cells = reader.block_reader(block).scan()
                came += [key.decode() for key in cells.keys.to_pylist()]
    return sorted(came), sorted(went)
