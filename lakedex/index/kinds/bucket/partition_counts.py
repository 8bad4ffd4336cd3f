"""Numbers of buckets by partition: Hudi's hashing config, a JSON file for each version of it.

    .hoodie/.bucket_index/partition_bucket_index_meta/configs/<instant>.hashing_config
    {"expressions": "2024.*,8;2025.*,16", "defaultBucketNumber": 4, "rule": "regex", "version": 1,
     "instant": "00000000000000000"}

The first pattern that is found in a partition path says its number. A version counts as soon as
its instant completed, and for every snapshot that sees this instant. Of those that rescales made
the table keeps a copy, by which one that is lost or damaged is known, and made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import keys
from lakedex.config.bucket_options import STORED_COUNTS
from lakedex.errors import (
    AlreadyExists,
    CorruptFile,
    FileMissing,
    IndexUnusable,
    InvalidInput,
    UnsupportedFeature,
)
from lakedex.expr.java_regex import to_re2
from lakedex.storage import split
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline

FOLDER: Final = f"{keys.BUCKET_INDEX_FOLDER}/partition_bucket_index_meta"
_CONFIGS: Final = f"{FOLDER}/configs"
_SUFFIX: Final = ".hashing_config"
_FIRST: Final = "00000000000000"
_VERSION: Final = 1
_MOST: Final = 1_000_000
_MOST_KEPT: Final = 8
_REMEDY: Final = "`lakedex repair` makes it again"


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """How many buckets each partition of a table has.

    Example:
        >>> counts = PartitionCounts("2024.*,8;2025.*,16", 4)
        >>> counts.count("day=2024-01-01"), counts.count("day=1999-01-01")
        (8, 4)
    """

    expressions: str
    default: int
    rule: str = "REGEX"
    instant: str = _FIRST

    def __post_init__(self) -> None:
        """Check the patterns and numbers.

        Raises:
            InvalidInput: a rule is no pattern with a number.
            UnsupportedFeature: a pattern may have another meaning here than in Java.
        """
        self.rules()

    def rules(self) -> list[tuple[str, int]]:
        """The patterns, in the form of RE2, with their numbers."""
        if not self.expressions:
            return []
        if self.rule.upper() != "REGEX":
            raise UnsupportedFeature(f"numbers of buckets by the rule {self.rule[:80]!r}")
        found = []
        for text in self.expressions.split(";"):
            pattern, comma, number = text.strip().partition(",")
            number = number.strip()
            is_number = number.isascii() and number.isdigit() and len(number) < len(str(_MOST)) + 1
            if not comma or not is_number or not 1 <= int(number) <= _MOST:
                raise InvalidInput(
                    f"{text[:80]!r} is not a pattern and a number of 1 to {_MOST}, with a comma "
                    "between them"
                )
            found.append((to_re2(pattern.strip()).text, int(number)))
        return found

    @classmethod
    def whole(cls, count: int, instant: str = _FIRST) -> PartitionCounts:
        """One number for all partitions; Hudi reads no file without a pattern.

        Example:
            >>> PartitionCounts.whole(8).count("day=2024-01-01")
            8
        """
        return cls(f".*,{count}", count, instant=instant)

    def with_counts(self, partitions: Iterable[str], count: int, instant: str) -> PartitionCounts:
        """The same with another number for some partitions.

        Raises:
            InvalidInput: the path of a partition cannot stand in a pattern.

        Example:
            >>> PartitionCounts(".*,4", 4).with_counts(["a=1"], 8, "2026").expressions
            '^a=1$,8;.*,4'
        """
        new = []
        for partition in partitions:
            if not partition or {",", ";", "\n"}.intersection(partition):
                raise InvalidInput(
                    f"partition {partition!r} cannot have a number of buckets of its own, as its "
                    "path cannot stand in a list of patterns"
                )
            new.append(f"^{re.escape(partition)}$")
        # An older number of the same partition would count no more.
        old = [each for each in self.expressions.split(";") if each.rpartition(",")[0] not in new]
        rules = [*(f"{pattern},{count}" for pattern in new), *(each for each in old if each)]
        return replace(self, expressions=";".join(rules), instant=instant)

    def count(self, partition: str) -> int:
        """The number of buckets of a partition."""
        return self.counts([partition])[partition]

    def counts(self, partitions: Sequence[str]) -> dict[str, int]:
        """The numbers of buckets of some partitions."""
        found = dict.fromkeys(partitions, self.default)
        paths = pa.array(found, pa.string())
        for pattern, number in reversed(self.rules()):
            matched = paths.filter(pc.match_substring_regex(paths, pattern))
            found.update(dict.fromkeys(matched.to_pylist(), number))
        return found

    def to_json(self) -> bytes:
        """The file that Hudi reads."""
        record = {
            "expressions": self.expressions,
            "defaultBucketNumber": self.default,
            "rule": self.rule,
            "version": _VERSION,
            "instant": self.instant,
        }
        return json.dumps(record, indent=2).encode()

    @classmethod
    def from_json(cls, data: bytes, *, path: str) -> PartitionCounts:
        """The numbers that a file says.

        Raises:
            CorruptFile: the file does not hold them.
        """
        try:
            record: Any = json.loads(data)
            default = record["defaultBucketNumber"]
            if record["version"] != _VERSION or type(default) is not int or default < 1:
                raise CorruptFile(path, 0, expected="a hashing config", actual=str(record)[:200])
            texts = (record["expressions"], record["rule"], record["instant"])
            if not all(isinstance(text, str) for text in texts):
                raise CorruptFile(path, 0, expected="a hashing config", actual=str(record)[:200])
            return cls(texts[0], default, texts[1], texts[2])
        except (ValueError, KeyError, TypeError, InvalidInput) as error:
            raise CorruptFile(path, 0, expected="a hashing config", actual=error) from error


def load_partition_counts(
    storage: Storage, timeline: Timeline, kept: Mapping[str, str] | None = None
) -> PartitionCounts | None:
    """The newest numbers of a table that count; None where all partitions have one number.

    Args:
        storage: The table.
        timeline: Its timeline.
        kept: What it keeps for its writers, if the file is to be compared with that.

    Raises:
        CorruptFile: they cannot be read, or are not those that the table keeps.
        IndexUnusable: the newest ones are missing.
    """
    newest = None if kept is None else _newest_kept(kept, timeline)
    if newest is not None:
        check_stored_counts(storage, newest)
    paths = _versions(storage, timeline)
    if not paths:
        return None
    return PartitionCounts.from_json(storage.read(paths[-1]), path=paths[-1])


def all_partition_counts(storage: Storage, timeline: Timeline) -> list[PartitionCounts]:
    """Every version that counts, the newest last.

    Raises:
        CorruptFile: one of them cannot be read.
    """
    paths = _versions(storage, timeline)
    return [PartitionCounts.from_json(storage.read(path), path=path) for path in paths]


def _versions(storage: Storage, timeline: Timeline) -> list[str]:
    versions = {
        name.removesuffix(_SUFFIX): info.path
        for info in storage.list(_CONFIGS)
        if (name := split(info.path)[1]).endswith(_SUFFIX)
    }
    return [versions[each] for each in sorted(versions) if _counts(each, timeline)]


def discard_partition_counts(storage: Storage, instant: str) -> None:
    """Remove the numbers that a write made which is taken back."""
    storage.delete(f"{_CONFIGS}/{instant}{_SUFFIX}")


def check_stored_counts(storage: Storage, kept: PartitionCounts) -> None:
    """See that numbers are stored as the table keeps them.

    Raises:
        CorruptFile: their file has others.
        IndexUnusable: it is missing.
    """
    path = f"{_CONFIGS}/{kept.instant}{_SUFFIX}"
    try:
        found: object = PartitionCounts.from_json(storage.read(path), path=path)
    except FileMissing as error:
        raise IndexUnusable(f"the numbers of buckets in {path} are missing; {_REMEDY}") from error
    except CorruptFile as error:
        found = error.actual
    if found != kept:
        raise CorruptFile(path, 0, expected=f"{kept} ({_REMEDY})", actual=str(found)[:200])


def restore_partition_counts(
    storage: Storage, timeline: Timeline, kept: Mapping[str, str]
) -> str | None:
    """Store the newest numbers again that the table keeps, if their file is lost or damaged.

    Returns:
        The path of the file; None where nothing was to be done.
    """
    newest = _newest_kept(kept, timeline)
    if newest is None:
        return None
    try:
        check_stored_counts(storage, newest)
    except (CorruptFile, IndexUnusable):
        path = f"{_CONFIGS}/{newest.instant}{_SUFFIX}"
        storage.replace(path, newest.to_json())
        return path
    return None


def kept_with(kept: Mapping[str, str], counts: PartitionCounts) -> dict[str, str]:
    """What a table keeps once a rescale has stored numbers."""
    records = [json.loads(each.to_json()) for each in [*_kept(kept), counts]]
    text = json.dumps(records[-_MOST_KEPT:], separators=(",", ":"))
    return {**kept, STORED_COUNTS: text}


def _newest_kept(kept: Mapping[str, str], timeline: Timeline) -> PartitionCounts | None:
    """Those of a rescale that is complete: others were taken back, or are about to be made."""
    found = sorted(_kept(kept), key=lambda each: each.instant, reverse=True)
    seen = (each for each in found if timeline.is_committed_write(each.instant))
    # What is older than the active timeline is only taken for complete: the archive knows.
    return next((each for each in seen if timeline.has_completed(each.instant)), None)


def _kept(kept: Mapping[str, str]) -> list[PartitionCounts]:
    try:
        records = json.loads(kept.get(STORED_COUNTS) or "[]")
        return [
            PartitionCounts.from_json(json.dumps(each).encode(), path=STORED_COUNTS)
            for each in records
        ]
    except (ValueError, TypeError) as error:
        raise CorruptFile(STORED_COUNTS, 0, expected="numbers of buckets", actual=error) from error


def _counts(instant: str, timeline: Timeline) -> bool:
    """Whether a version is the first one, or that of a write which the timeline has."""
    return not instant.strip("0") or timeline.is_committed_write(instant)


def store_partition_counts(storage: Storage, counts: PartitionCounts) -> None:
    """Write the numbers that an instant makes, or those of a new table, unless they are there."""
    try:
        storage.create(f"{_CONFIGS}/{counts.instant}{_SUFFIX}", counts.to_json())
    except AlreadyExists:
        return
