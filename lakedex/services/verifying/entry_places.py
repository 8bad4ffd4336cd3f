"""Where entries say that their rows are: those of the record index, and of covering indexes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId
from lakedex.index.kinds.record_index.locations import PLACE_FIELDS, distinct_locations
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.services.verifying.report import Findings, ProblemKind


def entry_places(entries: pa.Table) -> tuple[npt.NDArray[np.int64], list[FileSliceId]]:
    """For each entry the number of its place, and the places."""
    payload = entries[RECORD_INDEX_PAYLOAD].combine_chunks()
    codes = np.zeros(len(entries), dtype=np.int64)
    for name in PLACE_FIELDS:
        encoded = pc.dictionary_encode(pc.struct_field(payload, name), null_encoding="encode")
        if len(encoded.dictionary) == 1:
            continue  # it tells no place from another
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * max(1, len(encoded.dictionary)) + own, return_inverse=True)[1]
    _, first = np.unique(codes, return_index=True)
    places = [next(iter(distinct_locations(entries.slice(row, 1)))) for row in first.tolist()]
    return codes, places


def path_of(place: FileSliceId) -> str:
    """A place as people read it.

    Example:
        >>> path_of(FileSliceId("city=oslo", "f1")), path_of(FileSliceId("", "f1"))
        ('city=oslo/f1', 'f1')
    """
    return f"{place.partition}/{place.file_id}" if place.partition else place.file_id


def tell_wrong_places(
    findings: Findings,
    name: str,
    rows: npt.NDArray[np.intp],
    keys: pa.Array,
    actual: Callable[[int], FileSliceId],
    said: Callable[[int], str],
) -> None:
    """Report rows whose entry leads elsewhere: `said` tells what it says, `actual` what is so."""
    findings.add_all(
        name,
        ProblemKind.WRONG,
        rows,
        lambda row: (
            keys[row].as_py(),
            f"its entry {said(row)}, its row is in {path_of(actual(row))}",
            actual(row),
        ),
    )
