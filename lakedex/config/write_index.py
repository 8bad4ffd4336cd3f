"""The indexes by which a writer finds the place of a key (`hoodie.index.type`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lakedex.config.option_check import refusal
from lakedex.errors import InvalidInput, UnsupportedFeature

_OTHER_NAMES = {
    "RECORD_INDEX": "GLOBAL_RECORD_LEVEL_INDEX",
    "RECORD_LEVEL": "GLOBAL_RECORD_LEVEL_INDEX",
    "GLOBAL_RECORD_LEVEL": "GLOBAL_RECORD_LEVEL_INDEX",
}
"""Names of earlier releases and of Hudi's own designs."""
_BUCKET = "BUCKET"
_LATER = (_BUCKET, "FLINK_STATE", "INMEMORY")
_OF_BUCKETS = "bucket indexes are not written"
"""The reason in the list of options why those of a bucket index are refused."""
_INDEX_TYPE = "hoodie.index.type"


class WriteIndex(Enum):
    """A write index; the values are Hudi's names.

    Example:
        >>> WriteIndex.parse("record_index").is_global
        True
    """

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX"

    @classmethod
    def parse(cls, text: str) -> WriteIndex:
        """The index of a name, other names for it too.

        Raises:
            UnsupportedFeature: Hudi has the index and lakedex does not write it.
            InvalidInput: no index is called so.
        """
        name = text.strip().upper()
        name = _OTHER_NAMES.get(name, name)
        if name in _LATER:
            raise UnsupportedFeature(f"the write index {_INDEX_TYPE}={name}")
        if name not in cls.__members__:
            known = ", ".join(cls.__members__)
            raise InvalidInput(f"no write index is called {text!r}; there are {known}")
        return cls[name]

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table, not only in its partition."""
        return self.name.startswith("GLOBAL_")

    @property
    def uses_record_index(self) -> bool:
        """Whether places come from the metadata table's record index."""
        return self.name.endswith("RECORD_LEVEL_INDEX")

    @property
    def without_record_index(self) -> WriteIndex:
        """The index that finds the same keys by looking into files.

        Example:
            >>> WriteIndex.GLOBAL_RECORD_LEVEL_INDEX.without_record_index.value
            'GLOBAL_SIMPLE'
        """
        if not self.uses_record_index:
            return self
        return WriteIndex.GLOBAL_SIMPLE if self.is_global else WriteIndex.SIMPLE


def bucket_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of some options that ask for a bucket index.

    Example:
        >>> bucket_options({"hoodie.index.type": "bucket", "hoodie.metadata.enable": "true"})
        {'hoodie.index.type': 'bucket'}
    """
    return {name: value for name, value in options.items() if _asks_for_buckets(name, value)}


def refuse_bucket_options(options: Mapping[str, str]) -> None:
    """Refuse options that ask for a bucket index, whatever the write index is.

    Raises:
        UnsupportedFeature: naming the first of them.
    """
    for name, value in bucket_options(options).items():
        raise UnsupportedFeature(f"a bucket index ({name}={value})")


def _asks_for_buckets(name: str, value: str) -> bool:
    if name == _INDEX_TYPE:
        return value.strip().upper() == _BUCKET
    return refusal(name, value) == _OF_BUCKETS
