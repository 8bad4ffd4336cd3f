"""How a query reads a table, by Hudi's option names.

Spark passes all options of a DataFrameReader or DataFrameWriter, its own included, with names in
lower case. `hudi_options` separates them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from enum import Enum

from lakedex.config.option_check import (
    Use,
    canonical_names,
    check_options,
    check_setting,
    warn_once,
)
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.read.change_stream import START_OFFSET, TAKES_WHAT_IS_LEFT
from lakedex.spark.jvm_contract import PARTITION_COLUMNS_OPTION, PATH_OPTION

_AS_OF = "as.of.instant"
_QUERY_TYPE = ("hoodie.datasource.query.type", "hoodie.datasource.view.type")
_BEGIN = ("hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.start.timestamp")
_END = ("hoodie.datasource.read.end.instanttime", "hoodie.datasource.read.end.timestamp")
_FORMAT = "hoodie.datasource.query.incremental.format"
_LATEST, _ROW_CHANGES = "latest_state", "cdc"
_OF_INCREMENTAL = (*_BEGIN, *_END, _FORMAT, TAKES_WHAT_IS_LEFT)
_OF_STREAMS = (START_OFFSET,)
_REFUSED = ("hoodie.datasource.read.incr.path.glob", "hoodie.datasource.read.incr.filters")
_MERGE_TYPE = "hoodie.datasource.merge.type"
_SKIPPING = "hoodie.enable.data.skipping"
_METADATA = "hoodie.metadata.enable"
_BUCKETS = "hoodie.bucket.index.query.pruning"
SWITCHES = {_SKIPPING: "all", _METADATA: "all", _BUCKETS: "bucket"}
"""What is not used where it is `false`, as an option or of the session: a kind of index, or all."""
BASE_FILES_ONLY = "hoodie.query.as.ro.table"
"""Says of a name in a catalog that it shows base files only, or the table itself."""

STREAM_LIMITS = ("maxCommitsPerTrigger", "maxBytesPerTrigger", "maxFilesPerTrigger")
"""Options of a stream that is read, besides Hudi's."""
_OF_SPARK = """
    paths __paths__ __clustering_columns serialization.format
    checkpointlocation queryname outputmode partitionoverwritemode
"""
"""Options that Spark itself adds or obeys."""
_OF_FILE_SOURCES = """
    basepath mergeschema overwriteschema recursivefilelookup ignorecorruptfiles ignoremissingfiles
    inferschema header sep delimiter encoding charset quote escape comment multiline mode nullvalue
    dateformat timestampformat compression maxrecordsperfile datetimerebasemode int96rebasemode
"""
"""Options of Spark's file sources that change no row of a Hudi table."""
_SPARK_NAMES = frozenset([*_OF_SPARK.split(), PATH_OPTION, PARTITION_COLUMNS_OPTION])
_WITHOUT_EFFECT = frozenset(_OF_FILE_SOURCES.split())
_OTHER_ROWS = {
    "pathglobfilter": "filter the rows",
    "modifiedbefore": "filter the rows",
    "modifiedafter": "filter the rows",
    "timestampasof": f"use {_AS_OF}",
    "versionasof": f"use {_AS_OF}",
    "replacewhere": "use INSERT ... REPLACE WHERE, or MERGE",
}
"""Options of Spark by which other rows are meant, and what to do instead."""
_STORE_PREFIXES = ("fs.", "dfs.", "spark.", "parquet.")


def hudi_options(
    given: Mapping[str, str], use: Use, *, also: Collection[str] = ()
) -> dict[str, str]:
    """The options of Hudi and lakedex under their full names, without those of Spark.

    Args:
        given: All options, whatever the case of their names.
        use: Whether they are for a read or for a write.
        also: Names that are options in this place besides.

    Example:
        >>> hudi_options({"path": "/data/trips", "primarykey": "id"}, Use.WRITE)
        {'hoodie.datasource.write.recordkey.field': 'id'}
        >>> hudi_options({"as.of.instnt": "20260102030405678"}, Use.READ)
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: no option is called 'as.of.instnt'; did you mean ...

    Raises:
        InvalidInput: A name is unknown, or two names of one option have different values.
        UnsupportedFeature: An option needs something that lakedex does not have.
    """
    others = {name.lower() for name in also}
    own: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in _OTHER_ROWS:
            raise UnsupportedFeature(f"the option {name} ({_OTHER_ROWS[lower]} instead)")
        if lower in _WITHOUT_EFFECT or lower.startswith(_STORE_PREFIXES):
            warn_once(name, use, "it is an option of Spark's file sources and of the session")
        elif lower not in _SPARK_NAMES and lower not in others:
            own[name] = value
    found = canonical_names(own)
    check_options(found, use, also=also)
    return found


class QueryType(Enum):
    """Which rows of a table a query sees."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    """Those of base files only, without what log files changed since."""
    INCREMENTAL = "incremental"
    """Those written after one instant and up to another."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A table, and how it is to be read; its text form is its identity in Spark's plans.

    Example:
        >>> spec = ReadSpec.of("/data/trips", {"as.of.instant": "20260102030405678"})
        >>> ReadSpec.parse(str(spec)) == spec
        True
    """

    path: str
    query_type: str = QueryType.SNAPSHOT.value
    as_of: str | None = None
    begin: str | None = None
    end: str | None = None
    at_newest: bool = False
    """Whether changes are read as they are now, where the files of `end` are gone."""
    takes_what_is_left: bool = False
    """The same, but only if the files of `end` are gone."""
    prunes: bool = True
    """Whether indexes may remove files."""
    prunes_by_bucket: bool = True
    """Whether the bucket index may."""
    is_cdc: bool = False
    """Whether an incremental query returns the changes of rows (CDC), instead of the rows."""

    @classmethod
    def of(cls, path: str, options: Mapping[str, str]) -> ReadSpec:
        """What options say, whatever the case of their names.

        Raises:
            InvalidInput: A value is not one that Hudi knows, or options contradict each other.
            UnsupportedFeature: An option by which other rows are meant, that lakedex does not have.
        """
        given = {name.lower(): value for name, value in options.items()}
        kind = (_first(given, _QUERY_TYPE) or _query_type(given)).lower()
        if kind not in {each.value for each in QueryType}:
            known = ", ".join(each.value for each in QueryType)
            raise InvalidInput(f"{_QUERY_TYPE[0]} is one of {known}, not {kind!r}")
        begin, end = _first(given, _BEGIN), _first(given, _END)
        if kind != QueryType.INCREMENTAL.value:
            _warn_of(given, _OF_INCREMENTAL, f"it is for {_QUERY_TYPE[0]}=incremental")
        elif begin is None:
            raise InvalidInput(f"an incremental query needs {_BEGIN[0]}")
        elif _AS_OF in given:
            raise InvalidInput(
                f"{_AS_OF} contradicts {_QUERY_TYPE[0]}=incremental, which ends with {_END[0]}"
            )
        _warn_of(given, _OF_STREAMS, "it is for readStream")
        is_cdc = _is_cdc(given, kind)
        check_setting(_MERGE_TYPE, given.get(_MERGE_TYPE, ""))
        return cls(
            path=_root(path),
            query_type=kind,
            as_of=given.get(_AS_OF),
            begin=begin,
            end=end,
            takes_what_is_left=_is_on(given, TAKES_WHAT_IS_LEFT, default="false"),
            prunes=_is_on(given, _SKIPPING) and _is_on(given, _METADATA),
            prunes_by_bucket=_is_on(given, _BUCKETS),
            is_cdc=is_cdc,
        )

    @property
    def without(self) -> frozenset[str]:
        """The kinds of index that are not used; `all` for any."""
        kinds = ("all", not self.prunes), ("bucket", not self.prunes_by_bucket)
        return frozenset(kind for kind, is_off in kinds if is_off)

    @classmethod
    def parse(cls, text: str) -> ReadSpec:
        """The spec of a text form."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        # One line, whatever stands in a path.
        return json.dumps(asdict(self), sort_keys=True)


def _root(path: str) -> str:
    """The table of a path that ends in `/*/*`, as readers of older releases had to write it.

    Raises:
        InvalidInput: Another pattern, which would be a part of the table.
    """
    root = path
    while root.rstrip("/").endswith("/*"):
        root = root.rstrip("/").removesuffix("/*")
    if "*" in root:
        raise InvalidInput(
            f"{path!r} is a pattern: load the table's own path, and filter by its partitions"
        )
    return root


def _is_cdc(given: Mapping[str, str], kind: str) -> bool:
    """Whether the changes of rows are requested; options that select other rows are refused."""
    wanted = given.get(_FORMAT, _LATEST).lower()
    if wanted not in (_LATEST, _ROW_CHANGES):
        raise InvalidInput(f"{_FORMAT} is {_LATEST} or {_ROW_CHANGES}, not {wanted!r}")
    for name in _REFUSED:
        if given.get(name):
            raise UnsupportedFeature(f"{name} (a filter on the rows instead)")
    return wanted == _ROW_CHANGES and kind == QueryType.INCREMENTAL.value


def _query_type(given: Mapping[str, str]) -> str:
    """The kind of query where the reader names none: as the name of the table says."""
    is_part = given.get(BASE_FILES_ONLY, "false").lower() == "true"
    return QueryType.READ_OPTIMIZED.value if is_part else QueryType.SNAPSHOT.value


def _first(given: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((given[name] for name in names if name in given), None)


def _warn_of(given: Mapping[str, str], names: Collection[str], reason: str) -> None:
    """Warn once of options that this kind of query does not obey."""
    for name in names:
        if name.lower() in given:
            warn_once(name, Use.READ, reason)


def _is_on(given: Mapping[str, str], name: str, *, default: str = "true") -> bool:
    text = given.get(name, default).strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} is true or false, not {text!r}")
    return text == "true"
