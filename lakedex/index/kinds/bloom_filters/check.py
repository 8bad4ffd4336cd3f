"""Verifies bloom filters of files, of record keys or other values, against what the files hold."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import UnsupportedFeature
from lakedex.filegroup import FileSliceId
from lakedex.format.bloom import BloomFilter
from lakedex.index.metadata_table import BLOOM_PAYLOAD
from lakedex.index.verification.check import Check, FileRows, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.index.verification.keys import live_keys
from lakedex.schema.field_paths import flat

_LOOKUP_AT_ONCE = 64


def start(name: str, subject: Subject) -> Check:
    """The check of the bloom filters over record keys."""
    return FilterCheck(
        name,
        subject,
        file_columns=frozenset(subject.key_columns),
        values_of=subject.read.record_keys,
    )


@dataclass(slots=True)
class FilterCheck(Check):
    """Looks all values of each base file up in its filter, as they are read."""

    values_of: Callable[[pa.Table], pa.Array | pa.ChunkedArray] = field(kw_only=True)
    """The texts that filters are about; null and empty ones are in no filter."""
    stale_is_note: bool = field(default=False, kw_only=True)
    may_lack_filters: bool = field(default=False, kw_only=True)
    """Whether lakedex alone makes the filters, so that files of other engines have none."""
    _open_filters: dict[int, tuple[int, BloomFilter | None]] = field(default_factory=dict)
    """For each thread the file that it shows, and the filter of that."""
    _without: set[int] = field(default_factory=set)
    _exempt: set[int] = field(default_factory=set)
    """Files that need no filter: without the column, or with values that nothing is known of."""
    _lacking: dict[int, tuple[int, str]] = field(default_factory=dict)
    """How many values the filter of a file lacks, and one of them."""

    def see_file(self, part: FileRows) -> None:
        """Test some values of a base file; filters do not know of log files."""
        if part.is_log or not part.rows.num_rows:
            return
        thread = threading.get_ident()
        shown, found = self._open_filters.get(thread, (-1, None))
        if part.file_number != shown:
            found = self._filter_of(part.file_number)
            self._open_filters[thread] = part.file_number, found
        if not part.lacking.isdisjoint(self.file_columns):
            self._exempt.add(part.file_number)
        try:
            values = self.values_of(part.rows)
        except UnsupportedFeature:
            self._exempt.add(part.file_number)
            return
        if found is None:
            return
        whole = flat(values)
        lacking = np.flatnonzero(~found.contains(whole))
        if len(lacking):
            known, example = self._lacking.get(part.file_number, (0, whole[lacking[0]].as_py()))
            self._lacking[part.file_number] = (known + len(lacking), example)

    def finish(self) -> None:
        """Report filters that lack values, files without filter, and filters without file."""
        paths = self.subject.file_paths()
        without = sorted(self._without - self._exempt)
        if self.may_lack_filters and without:
            self.note(f"{len(without)} files of other engines have no filter: they are read")
            without = []
        for number in without:
            detail = "the file has no filter"
            self.problem(ProblemKind.MISSING, paths[number], detail, *self._about(number))
        for number, (count, example) in sorted(self._lacking.items()):
            detail = f"its filter lacks {count} values of the file, such as {example!r}"
            self.problem(ProblemKind.WRONG, paths[number], detail, *self._about(number))
        keys = live_keys(self.subject.metadata, self.name)
        self.count(len(keys))
        listed = self.subject.listed_tails()
        gone = keys.filter(pc.invert(pc.is_in(keys, value_set=listed))).combine_chunks()
        for begin in range(0, len(gone), _LOOKUP_AT_ONCE):
            # Marked as deleted, an entry is no entry: only the lookup tells.
            page = self.subject.metadata.lookup(self.name, gone.slice(begin, _LOOKUP_AT_ONCE))
            self._report_stale(page["key"].to_pylist())

    def _report_stale(self, keys: list[str]) -> None:
        if self.stale_is_note and keys:
            self.note(f"{len(keys)} filters of files that were removed are left; none is used")
            return
        for key in keys:
            detail = "the table has no file with this filter"
            self.problem(ProblemKind.STALE, key, detail, None, (key,))

    def _about(self, number: int) -> tuple[FileSliceId, tuple[str]]:
        return self.subject.slice_of(number), (self.subject.key_tail(number),)

    def _filter_of(self, file_number: int) -> BloomFilter | None:
        key = self.subject.files.key_tails.slice(file_number, 1)
        records = self.subject.metadata.lookup(self.name, key)
        if not len(records):
            self._without.add(file_number)
            return None
        payload = records[BLOOM_PAYLOAD][0]
        return BloomFilter.decode(
            payload["bloomFilter"].as_py(), type_code=payload["type"].as_py(), path=self.name
        )
