"""Segments of rows between two stages: small ones as they are, large ones packed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.errors import LakedexError
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.storage.open import StorageAddress


def test_small_and_large_segments_come_back_in_order(tmp_path: Path) -> None:
    storage = StorageAddress.of(str(tmp_path)).open()
    small = pa.table({"key": ["a", None], "n": [1, 2]})
    large = pa.table({"key": ["same"] * 20_000, "n": [7] * 20_000})
    writer = SpillWriter(storage, "scratch/part")
    segments = [writer.add(rows) for rows in (small, large, small.slice(1))]
    writer.finish()
    found = read_segments(storage, segments)
    assert found is not None
    assert found.equals(pa.concat_tables([small, large, small.slice(1)]))
    assert segments[1].length < large.nbytes // 2
    keys = read_segments(storage, segments[:1], ["key"])
    assert keys is not None
    assert keys.to_pydict() == {"key": ["a", None]}


def test_a_file_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    storage = StorageAddress.of(str(tmp_path)).open()
    writer = SpillWriter(storage, "part")
    segment = writer.add(pa.table({"key": ["a"]}))
    writer.finish()
    beyond = Segment(segment.path, segment.offset, segment.length + 1, 1)
    for wrong in (beyond, Segment("absent", 0, 1, 1)):
        with pytest.raises(LakedexError):
            read_segments(storage, [wrong])
