"""What properties say of a table's bucket index: any part of it, under Hudi's option names.

They are the settings that a table keeps for its writers, the properties of a table of the Spark
catalog, and the options of a writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakedex.config.bucket_options import BucketEngineType
from lakedex.errors import InvalidInput

INDEX_TYPE: Final = "hoodie.index.type"
ENGINE: Final = "hoodie.index.bucket.engine"
COUNT: Final = "hoodie.bucket.index.num.buckets"
HASH_FIELD: Final = "hoodie.bucket.index.hash.field"
EXPRESSIONS: Final = "hoodie.bucket.index.partition.expressions"
RULE: Final = "hoodie.bucket.index.partition.rule.type"
SINCE: Final = "lakedex.bucket.index.since"
"""The instant of the write that changed the number of buckets of a table. It is kept before that
write completes, so that a snapshot which does not see the write does not use the new number."""
BUCKET: Final = "BUCKET"
_MOST_DIGITS: Final = 9


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
        given = {name: settings.get(name, "").strip() for name in _NAMES}
        fields = tuple(name for each in given[HASH_FIELD].split(",") if (name := each.strip()))
        return cls(
            is_bucket=given[INDEX_TYPE].upper() == BUCKET,
            engine=_engine(given[ENGINE]),
            count=_count(given[COUNT]),
            fields=fields or None,
            expressions=given[EXPRESSIONS] or None,
            rule=given[RULE] or None,
        )


_NAMES: Final = (INDEX_TYPE, ENGINE, COUNT, HASH_FIELD, EXPRESSIONS, RULE)


def _engine(text: str) -> BucketEngineType | None:
    name = text.upper()
    if name and name not in BucketEngineType.__members__:
        known = ", ".join(BucketEngineType.__members__)
        raise InvalidInput(f"{ENGINE}={text[:80]!r} is no engine of a bucket index: {known}")
    return BucketEngineType[name] if name else None


def _count(text: str) -> int | None:
    if not text:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or not int(text):
        raise InvalidInput(f"{COUNT}={text[:80]!r} is no number of buckets, which is 1 or more")
    return int(text)
