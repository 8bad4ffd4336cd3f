"""What columns really hold in each file: smallest and largest value, nulls, rows.

Values are folded batch by batch, so that nothing but one pair of values stays in memory for each
column and file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import is_bytes, is_text
from lakedex.expr.bounds import form_of

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Actual:
    """The real statistics of one column, in the files that store it with one type."""

    type: pa.DataType
    files: _Ints
    """The numbers of the files; all other arrays have one entry for each."""
    minimum: pa.Array
    maximum: pa.Array
    null_count: _Ints
    value_count: _Ints
    has_nan: _Mask
    longest: _Ints
    """The bytes of the longest text or binary value."""

    @property
    def has_values(self) -> _Mask:
        """Files in which some row is not null."""
        return self.value_count > self.null_count

    def at(self, rows: _Ints) -> Actual:
        """Only the files at some positions."""
        return Actual(
            self.type,
            self.files[rows],
            self.minimum.take(pa.array(rows)),
            self.maximum.take(pa.array(rows)),
            self.null_count[rows],
            self.value_count[rows],
            self.has_nan[rows],
            self.longest[rows],
        )

    def as_type(self, data_type: pa.DataType) -> Actual:
        """The same values in a wider type."""
        return Actual(
            data_type,
            self.files,
            self.minimum.cast(data_type),
            self.maximum.cast(data_type),
            self.null_count,
            self.value_count,
            self.has_nan,
            self.longest,
        )


@dataclass(slots=True)
class _Fold:
    """One column in one file, so far."""

    minimum: pa.Scalar
    maximum: pa.Scalar
    nulls: int = 0
    rows: int = 0
    has_nan: bool = False
    longest: int = 0


@dataclass(slots=True)
class FileStatistics:
    """The real statistics of columns by file number."""

    _folds: dict[str, dict[pa.DataType, dict[int, _Fold]]] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)
    _uncounted: set[int] = field(default_factory=set)

    def add_rows(self, file_number: int, count: int) -> None:
        """Count rows of a file, whatever columns it has."""
        self._rows[file_number] = self._rows.get(file_number, 0) + count

    def do_not_count(self, file_number: int) -> None:
        """Note that not every row of a file was seen, so that counts cannot be compared."""
        self._uncounted.add(file_number)

    def row_count(self, file_number: int) -> int:
        """How many rows were seen of a file."""
        return self._rows.get(file_number, 0)

    def is_counted(self, files: _Ints) -> _Mask:
        """Files of which every row was seen."""
        return np.array([number not in self._uncounted for number in files.tolist()], np.bool_)

    def add(self, file_number: int, column: str, values: pa.Array | pa.ChunkedArray) -> None:
        """Add some values of a column; types without order are left out."""
        kind = values.type
        if form_of(kind) is None and not is_bytes(kind):
            return
        by_type = self._folds.setdefault(column, {})
        # Other threads add types of other files meanwhile.
        others = [folds for known, folds in list(by_type.items()) if known != kind]
        if any(file_number in folds for folds in others):
            self._uncounted.add(file_number)
        nothing = pa.scalar(None, kind)
        fold = by_type.setdefault(kind, {}).setdefault(file_number, _Fold(nothing, nothing))
        fold.nulls += values.null_count
        fold.rows += len(values)
        limits = pc.min_max(values)
        ends = pa.array([fold.minimum, fold.maximum, limits["min"], limits["max"]], kind)
        both = pc.min_max(ends)
        fold.minimum, fold.maximum = both["min"], both["max"]
        if pa.types.is_floating(kind) and not fold.has_nan:
            fold.has_nan = bool(pc.any(pc.is_nan(values)).as_py())
        if is_text(kind) or is_bytes(kind):
            longest = pc.max(pc.binary_length(values)).as_py()
            fold.longest = max(fold.longest, longest or 0)

    def of(self, column: str) -> list[Actual]:
        """The real statistics of a column, one for each type that files store it with."""
        return [_actual(kind, folds) for kind, folds in self._folds.get(column, {}).items()]


def _actual(kind: pa.DataType, folds: dict[int, _Fold]) -> Actual:
    each = list(folds.values())
    return Actual(
        type=kind,
        files=np.fromiter(folds, np.int64, len(folds)),
        minimum=pa.array([fold.minimum for fold in each], kind),
        maximum=pa.array([fold.maximum for fold in each], kind),
        null_count=np.array([fold.nulls for fold in each], np.int64),
        value_count=np.array([fold.rows for fold in each], np.int64),
        has_nan=np.array([fold.has_nan for fold in each], np.bool_),
        longest=np.array([fold.longest for fold in each], np.int64),
    )
