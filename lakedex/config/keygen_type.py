"""Which key generator a table has: by its type, by the name of a JVM class, or by its fields.

The class is only a name to look up; nothing is ever loaded by it. Tables of version 8 and later
name the type, older ones the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakedex.errors import InvalidInput, UnsupportedFeature

_CLASS_PACKAGE = "org.apache.hudi.keygen."
_AVRO = "_AVRO"


class KeyGeneratorType(Enum):
    """How record keys and partition paths are spelled; the values are Hudi's names."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"


_CLASSES = {
    "SimpleKeyGenerator": KeyGeneratorType.SIMPLE,
    "SimpleAvroKeyGenerator": KeyGeneratorType.SIMPLE,
    "ComplexKeyGenerator": KeyGeneratorType.COMPLEX,
    "ComplexAvroKeyGenerator": KeyGeneratorType.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "TimestampBasedKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "CustomKeyGenerator": KeyGeneratorType.CUSTOM,
    "CustomAvroKeyGenerator": KeyGeneratorType.CUSTOM,
}
_KNOWN_TO_HUDI = frozenset(
    {
        "GLOBAL_DELETE",
        "HOODIE_TABLE_METADATA",
        "SPARK_SQL",
        "SPARK_SQL_UUID",
        "SPARK_SQL_MERGE_INTO",
        "USER_PROVIDED",
        "AUTO_RECORD",
    }
)


def parse_key_generator(text: str) -> KeyGeneratorType:
    """The key generator that a type or a class name stands for.

    Example:
        >>> parse_key_generator("org.apache.hudi.keygen.ComplexKeyGenerator").value
        'COMPLEX'
        >>> parse_key_generator("simple_avro").value
        'SIMPLE'

    Raises:
        UnsupportedFeature: Hudi has such a generator, or it is code of somebody's own.
        InvalidInput: there is no such type.
    """
    name = text.strip()
    if name.startswith(_CLASS_PACKAGE) and name.removeprefix(_CLASS_PACKAGE) in _CLASSES:
        return _CLASSES[name.removeprefix(_CLASS_PACKAGE)]
    kind = name.upper().removesuffix(_AVRO)
    if kind in KeyGeneratorType.__members__:
        return KeyGeneratorType[kind]
    if kind in _KNOWN_TO_HUDI or "." in name:
        raise UnsupportedFeature(f"the key generator {name[:200]}")
    known = ", ".join(KeyGeneratorType.__members__)
    raise InvalidInput(f"no key generator is called {name[:200]!r}; there are {known}")


def inferred_key_generator(
    record_key: Sequence[str], partition_by: Sequence[str], *, custom: bool = False
) -> KeyGeneratorType:
    """The key generator that Hudi takes for such fields when none is named.

    Example:
        >>> inferred_key_generator(["id"], ["day"]).value
        'SIMPLE'
    """
    if not partition_by:
        return KeyGeneratorType.NON_PARTITION
    if custom:
        return KeyGeneratorType.CUSTOM
    one_each = len(record_key) == len(partition_by) == 1
    return KeyGeneratorType.SIMPLE if one_each else KeyGeneratorType.COMPLEX
