"""Which version of its record an incoming row is: every row must say so.

A row without an ordering value can be neither newer nor older than another one. Hudi takes such a
row at first, and then fails: when it merges a copy-on-write table, and with merge-on-read in every
reader of the file group. A row that is marked as deleted needs no version: it deletes whatever is
there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.filegroup.log_changes import marked_deleted
from lakedex.filegroup.ordering import raw_ordering


def unversioned_deletes(rows: pa.Table, ordering: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Rows that delete their record whatever its ordering value; none without ordering columns.

    Example:
        >>> rows = pa.table({"ver": [7, None], "_hoodie_is_deleted": [False, True]})
        >>> unversioned_deletes(rows, ["ver"]).tolist()
        [False, True]

    Raises:
        InvalidInput: a row that is no such delete has no value in an ordering column.
    """
    deletes = np.zeros(rows.num_rows, dtype=np.bool_)
    found = zip(ordering, raw_ordering(rows, ordering), strict=True)
    missing = {
        name: values.is_null().to_numpy(zero_copy_only=False)
        for name, values in found
        if values.null_count
    }
    if not missing:
        return deletes
    if len(missing) == len(ordering):
        deletes = np.logical_and.reduce(list(missing.values())) & marked_deleted(rows)
    for name, is_missing in missing.items():
        count = int((is_missing & ~deletes).sum())
        if count:
            raise InvalidInput(
                f"the ordering column {name!r} is null in {count} of {rows.num_rows} rows that "
                "were read together; give every row a value, as rows without one cannot be "
                "compared with other versions of their record"
            )
    return deletes
