"""Partition paths: the column values of a folder name.

    hive style            region=eu/day=2024-01-02
    plain                 eu/2024-01-02
    url-encoded           p=x y%2Fz%3D1%25
    with slashes          day=2024/01/02/region=eu
    slash-separated date  2024/01/02, for 2024-01-02

A folder name is used only where it determines the value: for a path that could belong to several
values, or whose text is no exact form of the column's type, the value is unknown, and no query
prunes by it.

A table may put a folder chosen by a hash of the path before each partition: object stores divide
their load by the prefix of names, and partitions with the same prefix, as days have, would share
one part. The path itself follows that folder, so it is read as before. Folders of other roots come
before it.

The day of a partition path, by a date pattern:

    2026-01-05            yyyy-MM-dd
    2026/01/05            yyyy/MM/dd
    day=2026-01-05/oslo   yyyy-MM-dd

The first levels of a path that match the pattern are its day, after names of columns and escapes
are removed. A path without such levels, as that of null, has no day.

Options and statements name partitions by patterns of their paths or values (`matching_paths`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.expr.java_regex import to_re2
from lakedex.keys.timebased import DatePattern
from lakedex.storage.roots import FOLDER_START

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null, and for the empty string too."""
OLD_DEFAULT_PARTITION = "default"
_PATH_ESCAPES = frozenset(
    [chr(code) for code in range(0x20)] + list("\"#%'*/:=?[\\]^{") + [chr(0x7F)]
)
_FILE_NAME_ESCAPES = _PATH_ESCAPES | frozenset("-_")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")


def by_distinct(values: pa.Array, work: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What `work` makes of the distinct values (null is one of them), for every row.

    Example:
        >>> import pyarrow.compute as pc
        >>> by_distinct(pa.array(["b", "a", "b"]), pc.utf8_upper).to_pylist()
        ['B', 'A', 'B']
    """
    if values.type == pa.string_view():
        values = values.cast(pa.string())
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    return work(encoded.dictionary).take(encoded.indices)


def with_hashed_folders(paths: pa.Array, folders: int) -> pa.Array:
    """Partition paths with the folders that belong before them.

    Example:
        >>> with_hashed_folders(pa.array(["org_id=1", "org_id=2"]), 256).to_pylist()
        ['90/org_id=1', '4e/org_id=2']
    """
    return by_distinct(
        paths, lambda found: pa.array([_hashed(path, folders) for path in found.to_pylist()])
    )


def without_hashed_folder(path: str, folders: int) -> str:
    """The path behind its folder; a path that is not behind the right one as it is.

    Example:
        >>> without_hashed_folder("90/org_id=1", 256), without_hashed_folder("ff/org_id=1", 256)
        ('org_id=1', 'ff/org_id=1')
    """
    _, _, rest = path.partition("/")
    return rest if rest and _hashed(rest, folders) == path else path


def with_roots(paths: pa.Array, roots: int) -> pa.Array:
    """Partition paths below the roots that they belong to, each one below one of them.

    Example:
        >>> with_roots(pa.array(["org_id=1", "org_id=2"]), 3).to_pylist()
        ['lakedex-root-0/org_id=1', 'lakedex-root-1/org_id=2']
    """
    return by_distinct(
        paths,
        lambda found: pa.array(
            [f"{FOLDER_START}{_number(path) % roots}/{path}" for path in found.to_pylist()]
        ),
    )


def without_root(path: str) -> str:
    """The path below its root, whichever that is.

    Example:
        >>> without_root("lakedex-root-1/org_id=1"), without_root("org_id=1")
        ('org_id=1', 'org_id=1')
    """
    first, _, rest = path.partition("/")
    return rest if rest and first.startswith(FOLDER_START) else path


def _number(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "big")


def _hashed(path: str, folders: int) -> str:
    number = _number(path)
    digits = len(f"{folders - 1:x}")
    return f"{number % folders:0{digits}x}/{path}"


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The value of one column in a partition path; `known` is False where it is not determined."""

    value: object
    known: bool
    bounds: tuple[object, object] | None = None
    """The least and the largest value that it can be, where it is not known."""


UNKNOWN = PartitionValue(None, known=False)


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """How a table turns partition columns into folder names."""

    fields: tuple[str, ...]
    hive_style: bool = False
    url_encoded: bool = False
    derived_fields: frozenset[str] = frozenset()
    """Columns whose folder is a formatted time, not the column's own value."""
    newer_fields: tuple[str, ...] = ()
    """The columns of newer folders, where those have fewer levels."""
    hashed_folders: int = 0
    """Of how many folders one may stand before a path; it says nothing of values."""
    has_roots: bool = False
    """Whether a path may be below another root."""
    slash_dates: bool = False
    """Whether the dashes of values are slashes in paths."""

    def values(self, path: str, types: dict[str, pa.DataType]) -> dict[str, PartitionValue]:
        """The values of the partition columns in a partition path.

        Example:
            >>> layout = PartitionLayout(("region", "day"), hive_style=True)
            >>> types = {"region": pa.string(), "day": pa.date32()}
            >>> layout.values("region=eu/day=2024-01-02", types)["day"].value
            datetime.date(2024, 1, 2)
        """
        levels = self._levels(path)
        return {
            name: self._value(name, levels[name], types.get(name)) if name in levels else UNKNOWN
            for name in self.fields
        }

    def texts(self, path: str) -> dict[str, str | None]:
        """The text of each partition column that a partition path names; None for null.

        For tables whose files leave partition columns out, so that the path is all there is.

        Example:
            >>> PartitionLayout(("a", "b"), hive_style=True).texts("a=1/b=x")
            {'a': '1', 'b': 'x'}
        """
        found: dict[str, str | None] = {}
        for name, level in self._levels(path).items():
            text = level.removeprefix(f"{name}=") if self.hive_style else level
            text = unescape_path_value(text) if self.url_encoded else text
            text = text.replace("/", "-") if self.slash_dates else text
            found[name] = None if text == DEFAULT_PARTITION else text
        return found

    def _levels(self, path: str) -> dict[str, str]:
        """The text of each column that the path has a level for; none when they are mixed up."""
        if self.has_roots:
            path = without_root(path)
        if self.hashed_folders:
            path = without_hashed_folder(path, self.hashed_folders)
        levels = path.split("/")
        if len(self.fields) == 1:
            # After a named level other named levels are of columns that the table does not list.
            is_other = self.hive_style and any("=" in level for level in levels[1:])
            return {} if is_other else {self.fields[0]: path}
        for fields in (self.fields, self.newer_fields):
            if self.hive_style and fields and path.startswith(f"{fields[0]}="):
                named = _named_levels(levels, fields)
                if named:
                    return named
            elif len(levels) == len(fields):
                return dict(zip(fields, levels, strict=True))
        return {}

    def _value(self, name: str, level: str, data_type: pa.DataType | None) -> PartitionValue:
        start = f"{name}="
        if self.hive_style != level.startswith(start) or name in self.derived_fields:
            return UNKNOWN
        text = level[len(start) :] if self.hive_style else level
        if self.url_encoded:
            text = unescape_path_value(text)
        if self.slash_dates and "/" in text:
            dashed = _parse(text.replace("/", "-"), data_type)
            if isinstance(dashed.value, str):
                # Other writers may store either form as text; '-' comes before '/'.
                return PartitionValue(None, known=False, bounds=(dashed.value, text))
            return dashed
        return _parse(text, data_type)


def _named_levels(levels: list[str], fields: tuple[str, ...]) -> dict[str, str]:
    """The text of each column in hive style, whose values may have slashes; none if unclear."""
    found: dict[str, str] = {}
    for level in levels:
        if len(found) < len(fields) and level.startswith(f"{fields[len(found)]}="):
            found[fields[len(found)]] = level
        elif found and "=" not in level:
            name = fields[len(found) - 1]
            found[name] = f"{found[name]}/{level}"
        else:
            return {}
    return found if len(found) == len(fields) else {}


def escape_path_value(value: str, *, for_file_name: bool = False) -> str:
    """A value with the characters escaped that may not stand in a folder (or file) name.

    Example:
        >>> escape_path_value("x y/z=1%")
        'x y%2Fz%3D1%25'
        >>> escape_path_value("a-b", for_file_name=True)
        'a%2Db'
    """
    escapes = _FILE_NAME_ESCAPES if for_file_name else _PATH_ESCAPES
    return "".join(f"%{ord(char):02X}" if char in escapes else char for char in value)


def unescape_path_value(text: str) -> str:
    """The value behind an escaped folder name.

    Example:
        >>> unescape_path_value("x y%2Fz%3D1%25")
        'x y/z=1%'
    """
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), text)


def _parse(text: str, data_type: pa.DataType | None) -> PartitionValue:
    if data_type is None:
        return UNKNOWN
    if text in (DEFAULT_PARTITION, OLD_DEFAULT_PARTITION):
        # The empty string shares the folder of null, and 'default' may be a real value.
        return UNKNOWN
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return PartitionValue(text, known=True)
    if pa.types.is_integer(data_type) and _INTEGER.fullmatch(text):
        return PartitionValue(int(text), known=True)
    if pa.types.is_boolean(data_type) and text in ("true", "false"):
        return PartitionValue(text == "true", known=True)
    if pa.types.is_date(data_type):
        try:
            parsed = date.fromisoformat(text)
        except ValueError:
            return UNKNOWN
        return PartitionValue(parsed, known=True) if parsed.isoformat() == text else UNKNOWN
    return UNKNOWN


_OUTPUT_FORMAT = "output.dateformat"
_ISO = "yyyy-MM-dd"
_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class PartitionDays:
    """Reads days out of partition paths.

    Example:
        >>> days = PartitionDays(DatePattern.parse("yyyy/MM/dd"))
        >>> days.of_paths(["2026/01/05", "day=2026/01/06/oslo", "oslo"])
        {'2026/01/05': 20458, 'day=2026/01/06/oslo': 20459}
    """

    pattern: DatePattern

    @classmethod
    def of(cls, config: TableConfig, date_format: str | None, *, option: str) -> PartitionDays:
        """By a pattern, else by that of the table's time-based partitions, else ISO dates.

        Raises:
            InvalidInput: the pattern is none that days can be read by; `option` is named.
        """
        text = date_format or config.timebased_keygen.get(_OUTPUT_FORMAT, "").strip() or _ISO
        try:
            return cls(DatePattern.parse(text))
        except (InvalidDefinition, UnsupportedFeature) as error:
            raise InvalidInput(
                f"{option}={text[:80]!r} must be a date pattern such as {_ISO}: {error}"
            ) from None

    def of_paths(self, paths: Iterable[str]) -> dict[str, int]:
        """The days since 1970-01-01 of those paths that have one."""
        owners: list[str] = []
        texts: list[str] = []
        for path in dict.fromkeys(paths):
            for text in _candidates(path):
                owners.append(path)
                texts.append(text)
        fits, instants, _ = self.pattern.read(pa.array(texts, pa.string()), "UTC")
        found: dict[str, int] = {}
        for at in np.flatnonzero(fits).tolist():
            found.setdefault(owners[at], int(instants[at]) // _MICROS_PER_DAY)
        return found


def _candidates(path: str) -> Iterable[str]:
    """All runs of levels, those that begin first and are shortest first."""
    levels = [_value(level) for level in path.split("/")]
    for start in range(len(levels)):
        for end in range(start + 1, len(levels) + 1):
            yield "/".join(levels[start:end])


def _value(level: str) -> str:
    return unescape_path_value(level.rpartition("=")[2])


def matching_paths(paths: Sequence[str], pattern: str, *, option: str) -> list[str]:
    r"""Those of some paths that a pattern of Java matches from their beginning to their end.

    Example:
        >>> matching_paths(["dt=2026-01-01", "dt=2026-02-01"], r"dt=2026-01-\d+", option="o")
        ['dt=2026-01-01']

    Raises:
        InvalidInput: the pattern is wrong; the option that holds it is named.
        UnsupportedFeature: a part of the pattern is not understood.
    """
    column = pa.array(paths, pa.string())
    try:
        found = pc.match_substring_regex(column, f"^(?:{to_re2(pattern).text})$")
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{option}={pattern[:200]!r} is no pattern: {error}") from error
    matched: list[str] = column.filter(found).to_pylist()
    return matched


def matches_wildcard(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern in which `*` stands for any characters, none included.

    Example:
        >>> matches_wildcard("2023-08-01", "2023-08-*"), matches_wildcard("2023-09-01", "*-08-*")
        (True, False)
        >>> matches_wildcard("a[1]", "a[1]*"), matches_wildcard("a1", "a[1]*")
        (True, False)
    """
    parts = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
