"""The ngram kind: which files have texts with given grams, as inverted lists.

    Parquet   gram    int32, ascending: the bit of a gram, see `grams.py`
              files   list<int32>, ascending; null for a gram that counts as one of all files
    footer    lakedex.ngram   the first gram of each row group

A lookup reads the row groups of the grams that a condition requires, and keeps the files that have
all of them. A gram of more than a share of the files (`common`) prunes little and takes most of the
space: it is stored without its files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakedex.errors import CorruptFile, InvalidInput
from lakedex.expr.tree import Call, Column, Compare, Expr, Literal, Op
from lakedex.index.contract import Mask, Question
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index import FileIndexKind, FileIndexQuery, IndexRequest
from lakedex.index.file_index.kind import combined, is_answered
from lakedex.index.file_index.run import (
    FILE,
    DescribedRun,
    EncodedEntries,
    RunHead,
    file_numbers,
    inverted,
    packed,
    pairs_of,
    read_table,
    unpacked,
)
from lakedex.index.kinds.ngram.conditions import (
    DOTTED_I,
    DOTTED_I_LOWER,
    KELVIN,
    KELVIN_LOWER,
    Piece,
    folded,
    required_pieces,
)
from lakedex.schema.field_paths import values_at
from lakedex.storage.protocol import FileInfo, Storage

GRAM: Final = "gram"
_FILES = "files"
_STARTS_KEY = b"lakedex.ngram"
_GRAMS_A_GROUP = 1 << 10
_LOOKUP_GROUPS = 8
_LENGTH, _BITS, _COMMON = "n", "bits", "common"
_LENGTHS = range(2, 9)
_BITS_ALLOWED = range(1 << 8, (1 << 24) + 1)
_PROBED_CHARACTERS = 12
Bits = npt.NDArray[np.int64]
_START: Final = b"\xfe"
_END: Final = b"\xff"
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_BYTES = 4 << 20
"""So many bytes of text are hashed at a time: eight times as many are held for it."""


class NgramKind(FileIndexKind):
    """Prunes by parts of texts: LIKE, ILIKE, RLIKE, contains, startswith, endswith and equality."""

    kind = "ngram"
    is_exact = False
    options: ClassVar[Mapping[str, str]] = {_LENGTH: "3", _BITS: "65536", _COMMON: "0.5"}

    def define(self, request: IndexRequest) -> IndexDefinition:
        """The definition of an index on one column of texts.

        Raises:
            InvalidInput: there are more columns, the column is no text, or an option is wrong.
        """
        if len(request.columns) != 1:
            raise InvalidInput(
                f"the ngram index {request.name} is on {len(request.columns)} columns: it takes one"
            )
        (column,) = request.columns
        kind = request.type_of(column)
        if not (pt.is_string(kind) or pt.is_large_string(kind)):
            raise InvalidInput(
                f"column {column!r} of type {kind} cannot have an ngram index: only columns of "
                "strings can"
            )
        return super().define(request)

    def checked_options(self, request: IndexRequest) -> dict[str, str]:
        """The options of a new index, with defaults for those that the request leaves out."""
        options = super().checked_options(request)
        _whole(options, _LENGTH, _LENGTHS)
        _whole(options, _BITS, _BITS_ALLOWED)
        try:
            is_share = 0 < float(options[_COMMON]) <= 1
        except ValueError:
            is_share = False
        if not is_share:
            raise InvalidInput(f"{_COMMON}={options[_COMMON]!r}: it is a share of files, 0.01 to 1")
        return options

    def entries(self, definition: IndexDefinition, rows: pa.Table) -> pa.Table:
        """The bits of the grams of a file."""
        texts = values_at(definition.source_fields[0], rows)
        grams = bits_of_texts(texts, *_sizes(definition))
        return pa.table({GRAM: pa.array(grams.astype(np.int32))})

    def encode(self, definition: IndexDefinition, entries: pa.Table, files: int) -> EncodedEntries:
        """Each gram once, with the files that have it unless these are most of the files."""
        most = math.floor(files * float(definition.options[_COMMON]))
        grams, lists = inverted(entries[GRAM].combine_chunks(), entries[FILE], files, most=most)
        starts = pa.table({GRAM: grams[::_GRAMS_A_GROUP]})
        table = pa.table({GRAM: grams, _FILES: lists})
        return EncodedEntries(table, {_STARTS_KEY: packed(starts)}, _GRAMS_A_GROUP)

    def decode(self, storage: Storage, head: RunHead) -> pa.Table:
        """The grams of each file; a common gram is one of all files."""
        table = read_table(storage, head)
        rows, numbers = pairs_of(table[_FILES].combine_chunks(), head.files.num_rows)
        grams = table[GRAM].combine_chunks().take(pa.array(rows))
        return pa.table({FILE: pa.array(numbers.astype(np.int32)), GRAM: grams})

    def lookup_bytes(self, run: FileInfo) -> int:
        """The row groups of some grams."""
        return run.size_bytes // _LOOKUP_GROUPS

    def can_answer(self, definition: IndexDefinition, question: Question) -> str | None:
        """Why an index says nothing about a predicate; None if it does."""
        if is_answered(question.predicate, lambda leaf: bool(_required(definition, leaf))):
            return None
        column, n = definition.source_fields[0], definition.options[_LENGTH]
        return (
            f"the predicate has no condition on {column} with a constant part of {n} bytes or more"
        )

    def candidates(self, query: FileIndexQuery) -> tuple[Mask, str]:
        """The slices with a file that has all grams of a condition."""
        grams: set[int] = set()

        def slices_matching(leaf: Expr) -> Mask | None:
            alternatives = _required(query.definition, leaf)
            if not alternatives:
                return None
            mask = np.zeros(len(query.table.slices), dtype=np.bool_)
            for required in alternatives:
                grams.update(required.tolist())
                for run in query.runs:
                    is_match = _files_with(query, run, required)
                    mask |= query.slices_of(run, np.flatnonzero(is_match))
            return mask

        mask = combined(query.predicate, slices_matching)
        if mask is None:
            mask = np.ones(len(query.table.slices), dtype=np.bool_)
        return mask, f"{len(grams)} n-grams, {int(mask.sum())} file slices may have all of them"

    def probes(self, definition: IndexDefinition, rows: pa.Table) -> list[Expr]:
        """Equality with a value, and a part from its middle."""
        path = definition.source_fields[0]
        values = values_at(path, rows)
        column = Column(tuple(path.split(".")), values.type)
        probes: list[Expr] = []
        for value in values.unique().drop_null().to_pylist():
            first = max(0, len(value) - _PROBED_CHARACTERS) // 2
            part = Literal(value[first : first + _PROBED_CHARACTERS], values.type)
            probes.append(Compare(Op.EQ, column, Literal(value, values.type)))
            probes.append(Call("contains", (column, part)))
        return probes


def _whole(options: Mapping[str, str], name: str, allowed: range) -> None:
    text = options.get(name, "")
    if not (text.isascii() and text.isdigit() and int(text) in allowed):
        raise InvalidInput(
            f"{name}={text!r}: it is a whole number from {allowed[0]} to {allowed[-1]}"
        )


def _sizes(definition: IndexDefinition) -> tuple[int, int]:
    """The length of grams in bytes, and the number of bits.

    Raises:
        InvalidInput: the definition, which the table has, has others than CREATE INDEX accepts.
    """
    _whole(definition.options, _LENGTH, _LENGTHS)
    _whole(definition.options, _BITS, _BITS_ALLOWED)
    return int(definition.options[_LENGTH]), int(definition.options[_BITS])


def _required(definition: IndexDefinition, condition: Expr) -> list[Bits] | None:
    """The bits of each alternative of a condition; None if an alternative requires none."""
    column = tuple(definition.source_fields[0].split("."))
    alternatives = required_pieces(condition, column)
    if alternatives is None:
        return None
    required = [bits_of_pieces(pieces, *_sizes(definition)) for pieces in alternatives]
    return required if all(len(each) for each in required) else None


def _files_with(query: FileIndexQuery, run: DescribedRun, grams: Bits) -> npt.NDArray[np.bool_]:
    """Which files of a run have all of some grams.

    Raises:
        CorruptFile: the run is damaged.
    """
    head = run.head
    files = head.files.num_rows
    table = query.stored(run, lambda: _groups_of(head, grams))
    stored = table[GRAM].to_numpy()
    at = np.searchsorted(stored, grams)
    if (at == len(stored)).any() or (stored[at] != grams).any():
        return np.zeros(files, dtype=np.bool_)  # no file has one of them
    chosen = table[_FILES].combine_chunks().take(pa.array(at)).drop_null()
    numbers = file_numbers(chosen)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= files):
        raise CorruptFile(head.path, 0, expected="numbers of its files", actual=numbers.max())
    is_match: npt.NDArray[np.bool_] = np.bincount(numbers, minlength=files) == len(chosen)
    return is_match


def _groups_of(head: RunHead, grams: Bits) -> list[int]:
    """The row groups that have these grams, if the run has them."""
    try:
        starts = unpacked(head.footer[_STARTS_KEY])[GRAM].to_numpy().astype(np.int64)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptFile(head.path, 0, expected="the grams of its groups", actual=error) from error
    if len(starts) != len(head.group_rows) or (np.diff(starts) <= 0).any():
        raise CorruptFile(head.path, 0, expected="the grams of its groups", actual=len(starts))
    groups = np.unique(np.searchsorted(starts, grams, side="right") - 1)
    numbers: list[int] = groups[groups >= 0].tolist()
    return numbers


def bits_of_texts(texts: pa.ChunkedArray, n: int, bits: int) -> Bits:
    """The bits of all n-grams of some texts, ascending.

    Example:
        >>> len(bits_of_texts(pa.chunked_array([["abc", None, "ABC"]]), 3, 1 << 16))
        3
    """
    is_set = np.zeros(bits, dtype=np.bool_)
    for block in _blocks(texts):
        data, ends = _bytes_of(block)
        if len(data) >= n:
            is_gram = np.ones(len(data) - n + 1, dtype=np.bool_)
            for back in range(1, n):
                # Fewer than n bytes before the end of a text begin no gram of it.
                last = ends - back
                is_gram[last[last < len(is_gram)]] = False
            is_set[_hashed(data, n, bits)[is_gram]] = True
    return np.flatnonzero(is_set)


def bits_of_pieces(pieces: Iterable[Piece], n: int, bits: int) -> Bits:
    """The bits that a file has if one of its texts has all these pieces, ascending.

    Example:
        >>> len(bits_of_pieces([Piece("abcd")], 3, 1 << 16))
        2
        >>> len(bits_of_pieces([Piece("ab")], 3, 1 << 16))
        0
    """
    required = [np.zeros(0, dtype=np.int64)]
    for piece in pieces:
        start, end = _START * piece.at_start, _END * piece.at_end
        text = start + folded(piece.text).encode("utf-8", "surrogatepass") + end
        if len(text) >= n:
            required.append(_hashed(np.frombuffer(text, dtype=np.uint8), n, bits))
    return np.unique(np.concatenate(required))


def _blocks(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in texts.chunks:
        present = chunk.drop_null()
        if len(present):
            rows = max(1, len(present) * _BLOCK_BYTES // max(1, present.nbytes))
            for first in range(0, len(present), rows):
                yield present[first : first + rows]


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Bits]:
    """The bytes of folded texts with their marks, and where each text ends."""
    lowered = pc.ascii_lower(texts.cast(pa.large_string()))
    if not pc.all(pc.string_is_ascii(lowered)).as_py():
        lowered = pc.replace_substring(lowered, KELVIN, KELVIN_LOWER)
        lowered = pc.replace_substring(lowered, DOTTED_I, DOTTED_I_LOWER)
    marks = (pa.scalar(each, pa.large_binary()) for each in (_START, _END, b""))
    start, end, separator = marks
    marked = pc.binary_join_element_wise(start, lowered.cast(pa.large_binary()), end, separator)
    offsets = np.frombuffer(marked.buffers()[1], dtype=np.int64)[: len(marked) + 1]
    return np.frombuffer(marked.buffers()[2], dtype=np.uint8)[: offsets[-1]], offsets[1:]


def _hashed(data: npt.NDArray[np.uint8], n: int, bits: int) -> Bits:
    """The bit of each run of n bytes."""
    count = len(data) - n + 1
    grams = np.zeros(count, dtype=np.uint64)
    for at in range(n):
        grams |= data[at : at + count].astype(np.uint64) << np.uint64(8 * at)
    grams *= _MULTIPLIER
    grams >>= np.uint64(32)
    grams %= np.uint64(bits)
    return grams.astype(np.int64)
