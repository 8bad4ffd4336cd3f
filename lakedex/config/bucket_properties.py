"""What properties say of a table's bucket index: any part of it, under Hudi's option names.

They are the settings that a table keeps for its writers, the properties of a table of the Spark
catalog, and the options of a writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakedex.config import write_option_names as options
from lakedex.config.bucket_options import BucketEngineType

ENGINE: Final = options.BUCKET_ENGINE.name
COUNT: Final = options.BUCKET_COUNT.name
HASH_FIELD: Final = options.BUCKET_HASH_FIELD.name
EXPRESSIONS: Final = options.BUCKET_EXPRESSIONS.name
SINCE: Final = "lakedex.bucket.index.since"
"""The instant of the write that changed the number of buckets of a table. It is kept before that
write completes, so that a snapshot which does not see the write does not use the new number."""
STORED_COUNTS: Final = "lakedex.bucket.stored.counts"
"""The newest numbers of buckets that rescales stored, as their files have them: without the file of
the newest one, an older one would be taken for it."""
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
