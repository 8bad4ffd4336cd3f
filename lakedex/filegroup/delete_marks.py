"""Rows that are deletes by what they hold, and whether they carry an ordering value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup.context import DELETED_FLAG, OPERATION

_Mask = npt.NDArray[np.bool_]
_DELETE_OPERATION = "D"


def marked_deleted(rows: pa.Table) -> _Mask:
    """Rows that every reader takes for deletes, by a column of the table.

    Example:
        >>> marked_deleted(pa.table({"_hoodie_is_deleted": [True, None, False]})).tolist()
        [True, False, False]
        >>> marked_deleted(pa.table({"_hoodie_operation": ["I", "D"]})).tolist()
        [False, True]
    """
    marked = np.zeros(rows.num_rows, dtype=np.bool_)
    if DELETED_FLAG in rows.column_names:
        marked |= rows[DELETED_FLAG].to_numpy() == np.True_
    if OPERATION in rows.column_names:
        marked |= pc.equal(rows[OPERATION], _DELETE_OPERATION).to_numpy() == np.True_
    return marked


def without_ordering(columns: Sequence[pa.Array], count: int) -> _Mask:
    """Rows that carry no ordering value: null, or Hudi's default, the int 0.

    Example:
        >>> versions = pa.array([None, 0, 7], pa.int32())
        >>> without_ordering([versions], 3).tolist()
        [True, True, False]
    """
    without = np.ones(count, dtype=np.bool_)
    for values in columns:
        missing = values.is_null()
        if pa.types.is_int32(values.type):
            missing = pc.or_(missing, pc.equal(values, 0).fill_null(pa.scalar(value=True)))
        without &= missing.to_numpy(zero_copy_only=False).astype(np.bool_)
    return without
