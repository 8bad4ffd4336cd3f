"""The bucket index of a table: engine, number of buckets, hash fields, numbers by partition.

`BucketProperties` is the part of it that a set of properties contains, under Hudi's option names:
the settings that a table stores for its writers, the properties of a table of the Spark catalog,
or the options of a writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakedex.config import write_option_names as options
from lakedex.config.option_values import TextOption
from lakedex.config.table_config import TableConfig
from lakedex.errors import InvalidInput, UnsupportedFeature

_OTHER_NAMES: Final = {"SIMPLE_HASHING": "SIMPLE"}
"""Names of engines in Hudi's design."""
PARAMETERS: Final[tuple[TextOption, ...]] = (
    options.BUCKET_ENGINE,
    options.BUCKET_COUNT,
    options.BUCKET_HASH_FIELD,
    options.BUCKET_EXPRESSIONS,
    options.BUCKET_RULE,
)
"""What decides on the bucket of a key; a table keeps it for good."""
RESIZING: Final[tuple[TextOption, ...]] = (
    options.BUCKET_MOST,
    options.BUCKET_LEAST,
    options.BUCKET_SPLIT_THRESHOLD,
    options.BUCKET_MERGE_THRESHOLD,
    options.BUCKET_RESIZE_POLICY,
    options.BUCKET_RESIZE_WRITES,
    options.BUCKET_RESIZE_BYTES,
    options.BUCKET_RESIZE_PARTITIONS,
)
"""When buckets are split and merged, and how rows are written meanwhile.

A later write may say otherwise."""

_REFUSES: Final = ("SparkRejectUpdateStrategy", "FlinkRejectUpdateStrategy")
_DOUBLES: Final = "SparkConsistentBucketDuplicateUpdateStrategy"
"""Hudi's classes that say what becomes of updates of buckets under resize."""
REGEX_RULE: Final = "REGEX"
"""Numbers of buckets by partition are said by regular expressions."""


class BucketEngineType(Enum):
    """How keys become buckets; the values are Hudi's names, but for the last one."""

    SIMPLE = "SIMPLE"
    CONSISTENT_HASHING = "CONSISTENT_HASHING"
    EXTENDIBLE_HASHING = "EXTENDIBLE_HASHING"

    @classmethod
    def parse(cls, text: str) -> BucketEngineType:
        """The engine of a name, in any case.

        Example:
            >>> BucketEngineType.parse("simple_hashing").value
            'SIMPLE'

        Raises:
            InvalidInput: no engine is called so.
        """
        name = text.strip().upper()
        name = _OTHER_NAMES.get(name, name)
        if name not in cls.__members__:
            raise InvalidInput(
                f"{options.BUCKET_ENGINE.name}={text[:80]!r} must be one of "
                f"{', '.join(cls.__members__)}"
            )
        return cls[name]


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """What decides on the bucket of a key.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9",
        ...      "hoodie.table.recordkey.fields": "id"}, "hoodie.properties")
        >>> given = {"hoodie.bucket.index.num.buckets": "8"}
        >>> chosen = BucketOptions.resolve(config, {}, given)
        >>> chosen.engine.value, chosen.count, chosen.fields
        ('SIMPLE', 8, ('id',))
    """

    engine: BucketEngineType
    count: int
    """The number of buckets of each partition, of a ring that of its first one."""
    fields: tuple[str, ...]
    """The hash fields."""
    expressions: str = ""
    """Numbers of buckets by partition: `pattern,number;pattern,number`."""
    rule: str = REGEX_RULE

    @classmethod
    def resolve(
        cls, config: TableConfig, kept: Mapping[str, str], given: Mapping[str, str]
    ) -> BucketOptions:
        """The bucket index of a table, by what it keeps or by the options that make it one.

        Raises:
            InvalidInput: a value is wrong, or contradicts what the table keeps.
        """
        is_kept = options.BUCKET_ENGINE.given(kept) is not None
        for option in PARAMETERS if is_kept else ():
            said = option.given(given)
            if said is not None:
                _check_same(config, option, said, option.text(kept))
        settings = {**_by_newest_name(given), **_by_newest_name(kept)}
        found = cls(
            engine=BucketEngineType.parse(options.BUCKET_ENGINE.text(settings)),
            count=options.BUCKET_COUNT.value(settings),
            fields=options.BUCKET_HASH_FIELD.value(settings) or config.record_key_fields,
            expressions=options.BUCKET_EXPRESSIONS.text(settings),
            rule=options.BUCKET_RULE.text(settings).upper(),
        )
        found.check(config)
        return found

    def check(self, config: TableConfig) -> None:
        """Refuse parameters that do not go with each other or with the table.

        Raises:
            InvalidInput: naming the value.
        """
        name = options.INDEX_TYPE.name
        if not config.record_key_fields:
            raise InvalidInput(f"{name}=BUCKET needs a record key; table {config.name} has none")
        others = [each for each in self.fields if each not in config.record_key_fields]
        if others:
            raise InvalidInput(
                f"{options.BUCKET_HASH_FIELD.name} names {others[0]!r}, which is no record key "
                f"field of table {config.name} ({', '.join(config.record_key_fields)})"
            )
        is_simple = self.engine is BucketEngineType.SIMPLE
        if self.expressions and not is_simple:
            raise InvalidInput(
                f"{options.BUCKET_EXPRESSIONS.name} needs {options.BUCKET_ENGINE.name}=SIMPLE, "
                f"not {self.engine.value}, whose buckets are split and merged by their size"
            )
        is_power = not self.count & (self.count - 1)
        if self.engine is BucketEngineType.EXTENDIBLE_HASHING and not is_power:
            raise InvalidInput(
                f"{options.BUCKET_COUNT.name}={self.count} must be a power of two for "
                f"{self.engine.value}, whose buckets are prefixes of the hash"
            )

    def kept(self) -> dict[str, str]:
        """The settings that stay with the table."""
        found = {
            options.BUCKET_ENGINE.name: self.engine.value,
            options.BUCKET_COUNT.name: str(self.count),
            options.BUCKET_HASH_FIELD.name: ",".join(self.fields),
        }
        if self.expressions:
            found[options.BUCKET_EXPRESSIONS.name] = self.expressions
            found[options.BUCKET_RULE.name] = self.rule
        return found


class ResizeWrites(Enum):
    """What becomes of rows for buckets that are being split or merged."""

    REFUSE = "refuse"
    """The write is refused."""
    DUAL = "dual"
    """They are written to the present buckets and to the new ones."""
    VIRTUAL = "virtual"
    """They are written to the new buckets, and the present ones refer to them."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str], given: Mapping[str, str]) -> ResizeWrites:
        """What a write says, by lakedex's own option or by Hudi's, else what the table keeps.

        Example:
            >>> kept = {"lakedex.bucket.resize.writes": "virtual"}
            >>> ResizeWrites.resolve(kept, {}).name, ResizeWrites.resolve({}, {}).name
            ('VIRTUAL', 'REFUSE')

        Args:
            settings: The options of the write with those that the table keeps.
            given: The options of the write alone.

        Raises:
            InvalidInput: the value is unknown, or contradicts Hudi's option.
            UnsupportedFeature: updates of what is being clustered are to be done in another way.
        """
        updates = options.UPDATES_STRATEGY.text(settings)
        name = updates.rpartition(".")[2]
        if name not in (*_REFUSES, _DOUBLES):
            raise UnsupportedFeature(f"{options.UPDATES_STRATEGY.name}={updates[:200]}")
        own, of_hudi = options.BUCKET_RESIZE_WRITES, cls.DUAL if name == _DOUBLES else cls.REFUSE
        names_hudis = options.UPDATES_STRATEGY.given(given) is not None
        if own.given(given) is None and (names_hudis or own.given(settings) is None):
            return of_hudi
        found = cls(own.value(settings))
        if names_hudis and found is not of_hudi:
            raise InvalidInput(
                f"{own.name}={found.value} contradicts {options.UPDATES_STRATEGY.name}="
                f"{updates[:200]}: leave one of them out"
            )
        return found


@dataclass(frozen=True, slots=True)
class ResizeOptions:
    """When the buckets of a ring are split and merged."""

    most: int | None = None
    """The most buckets of a partition; None without a limit."""
    least: int | None = None
    """The least buckets of a partition; None without a limit."""
    split_threshold: float = 2.0
    """A bucket is split that is so many times as large as a file may be."""
    merge_threshold: float = 0.2
    """A bucket is merged that is smaller than this part of what a file may be."""
    policy: str = options.BUCKET_RESIZE_POLICY.default
    """Whether a bucket is divided where its records are halved, or at the middle of its range."""
    most_bytes: int = int(options.BUCKET_RESIZE_BYTES.default)
    """About so many bytes one plan rewrites at most."""
    most_partitions: int = int(options.BUCKET_RESIZE_PARTITIONS.default)
    """So many partitions one plan changes at most."""
    writes: ResizeWrites = ResizeWrites.REFUSE
    """What becomes of rows for buckets under resize."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str], given: Mapping[str, str]) -> ResizeOptions:
        """The options by their names; `given` are those of the write alone.

        Raises:
            InvalidInput: a value is wrong, or the two limits contradict each other.
            UnsupportedFeature: updates of what is being clustered are to be done in another way.
        """
        found = cls(
            options.BUCKET_MOST.value_if_given(settings),
            options.BUCKET_LEAST.value_if_given(settings),
            options.BUCKET_SPLIT_THRESHOLD.value(settings),
            options.BUCKET_MERGE_THRESHOLD.value(settings),
            options.BUCKET_RESIZE_POLICY.value(settings),
            options.BUCKET_RESIZE_BYTES.value(settings),
            options.BUCKET_RESIZE_PARTITIONS.value(settings),
            ResizeWrites.resolve(settings, given),
        )
        if found.most is not None and found.least is not None and found.most < found.least:
            raise InvalidInput(
                f"{options.BUCKET_MOST.name}={found.most} is less than "
                f"{options.BUCKET_LEAST.name}={found.least}"
            )
        return found


def check_no_bucket_options(given: Mapping[str, str]) -> None:
    """Refuse options of a bucket index for a table that has none.

    Raises:
        InvalidInput: naming the first of them.
    """
    for option in (*PARAMETERS, *RESIZING):
        if option.given(given) is not None:
            raise InvalidInput(
                f"{option.name} says nothing without {options.INDEX_TYPE.name}=BUCKET"
            )


def _check_same(config: TableConfig, option: TextOption, said: str, known: str) -> None:
    if option is options.BUCKET_ENGINE:
        same = BucketEngineType.parse(said) is BucketEngineType.parse(known)
    elif option is options.BUCKET_HASH_FIELD:
        # The order of the key counts, whatever the order of the list.
        named = options.BUCKET_HASH_FIELD.value
        same = sorted(named({option.name: said})) == sorted(named({option.name: known}))
    elif option is options.BUCKET_COUNT:
        same = options.BUCKET_COUNT.value({option.name: said}) == int(known)
    else:
        same = said.upper() == known.upper() if option is options.BUCKET_RULE else said == known
    if not same:
        raise InvalidInput(
            f"{option.name}={said[:80]!r} contradicts table {config.name}, which keeps {known!r}: "
            "another bucket index would take records that are there for new ones"
        )


def _by_newest_name(settings: Mapping[str, str]) -> dict[str, str]:
    found = {option.name: option.given(settings) for option in (*PARAMETERS, *RESIZING)}
    return {name: value for name, value in found.items() if value is not None}


ENGINE: Final = options.BUCKET_ENGINE.name
COUNT: Final = options.BUCKET_COUNT.name
HASH_FIELD: Final = options.BUCKET_HASH_FIELD.name
EXPRESSIONS: Final = options.BUCKET_EXPRESSIONS.name
STORED_COUNTS: Final = "lakedex.bucket.stored.counts"
"""The newest numbers of buckets that rescales stored, as their files have them: without the file of
the newest one, an older one would be taken for it."""
SINCE: Final = "lakedex.bucket.index.since"
"""The instant of the write that changed the number of buckets of a table. It is kept before that
write completes, so that a snapshot which does not see the write does not use the new number."""
_BUCKET: Final = "BUCKET"


@dataclass(frozen=True, slots=True)
class BucketProperties:
    """The parameters of a bucket index that properties name; None for those that they do not.

    Example:
        >>> found = BucketProperties.of({
        ...     "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "8"})
        >>> found.is_bucket, found.count, found.engine
        (True, 8, None)
    """

    is_bucket: bool = False
    """Whether they say that the table has a bucket index."""
    engine: BucketEngineType | None = None
    count: int | None = None
    fields: tuple[str, ...] | None = None
    expressions: str | None = None
    rule: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> BucketProperties:
        """The parameters among some settings.

        Raises:
            InvalidInput: a value is none; the message names it.
        """
        engine = options.BUCKET_ENGINE.given(settings)
        return cls(
            is_bucket=options.INDEX_TYPE.text(settings).upper() == _BUCKET,
            engine=BucketEngineType.parse(engine) if engine else None,
            count=options.BUCKET_COUNT.value_if_given(settings),
            fields=options.BUCKET_HASH_FIELD.value(settings) or None,
            expressions=options.BUCKET_EXPRESSIONS.given(settings) or None,
            rule=options.BUCKET_RULE.given(settings) or None,
        )
