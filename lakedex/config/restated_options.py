"""Options that say again what the table says, or that would change what it means.

Hudi writers repeat the record key, the partition columns and so on with every write. Where they
agree with the table they are fine; where they differ the write is refused with both values,
because obeying either of them would leave a table of two minds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lakedex.config import keys
from lakedex.config.option_values import flag_text
from lakedex.config.table_config import (
    KeyGeneratorType,
    MergeMode,
    TableConfig,
    inferred_key_generator,
    parse_key_generator,
)
from lakedex.errors import InvalidInput, UnsupportedFeature

_LOCK_FOLDER: Final = "hoodie.write.lock.filesystem.path"
_PAYLOAD_MODES: Final = {
    keys.DEFAULT_PAYLOAD: MergeMode.EVENT_TIME_ORDERING.value,
    keys.EVENT_TIME_PAYLOAD: MergeMode.EVENT_TIME_ORDERING.value,
    keys.OVERWRITE_PAYLOAD: MergeMode.COMMIT_TIME_ORDERING.value,
}
_STRATEGY_MODES: Final = {
    keys.EVENT_TIME_STRATEGY_ID: MergeMode.EVENT_TIME_ORDERING.value,
    keys.COMMIT_TIME_STRATEGY_ID: MergeMode.COMMIT_TIME_ORDERING.value,
}
_TABLE_TYPES: Final = {"COW": "COPY_ON_WRITE", "MOR": "MERGE_ON_READ"}


def _names(text: str) -> str:
    """A comma list in one spelling; the kinds of a custom generator in lower case."""
    parts = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    shown = [f"{name}:{kind.lower()}" if kind else name for name, _, kind in parts]
    return ",".join(part.removesuffix(":simple") for part in shown)


def _table_type(text: str) -> str:
    return _TABLE_TYPES.get(text.upper(), text.upper())


def _generator(text: str) -> str:
    return parse_key_generator(text).value


def _payload(text: str) -> str:
    return _PAYLOAD_MODES.get(text, text)


def _strategy(text: str) -> str:
    return _STRATEGY_MODES.get(text.lower(), text)


def _same(text: str) -> str:
    return text


def _partitions(config: TableConfig) -> str:
    pairs = zip(config.partition_fields, config.partition_kinds, strict=True)
    return _names(",".join(f"{name}:{kind}" for name, kind in pairs))


def _table_generator(config: TableConfig) -> str:
    named = config.keygen_type or config.keygen_class
    if named is None:
        found: KeyGeneratorType = inferred_key_generator(
            config.record_key_fields, config.partition_fields
        )
        return found.value
    return parse_key_generator(named).value


_RESTATED: Final[
    tuple[tuple[tuple[str, ...], Callable[[str], str], Callable[[TableConfig], str]], ...]
] = (
    (
        (keys.TABLE_NAME, "hoodie.datasource.write.table.name"),
        _same,
        lambda config: config.name,
    ),
    ((keys.DATABASE_NAME,), _same, lambda config: config.database or ""),
    (
        (
            keys.TABLE_TYPE,
            "hoodie.datasource.write.table.type",
            "hoodie.datasource.write.storage.type",
        ),
        _table_type,
        lambda config: config.table_type.value,
    ),
    (
        (keys.TABLE_VERSION, "hoodie.write.table.version"),
        _same,
        lambda config: str(config.version),
    ),
    (
        (keys.RECORD_KEY_FIELDS, "hoodie.datasource.write.recordkey.field"),
        _names,
        lambda config: ",".join(config.record_key_fields),
    ),
    ((keys.PARTITION_FIELDS, "hoodie.datasource.write.partitionpath.field"), _names, _partitions),
    (
        (
            *keys.ORDERING_FIELD_NAMES,
            "hoodie.datasource.write.precombine.field",
            "hoodie.datasource.write.ordering.fields",
            "hoodie.payload.ordering.field",
        ),
        _names,
        lambda config: ",".join(config.ordering_fields),
    ),
    (
        (
            keys.KEY_GENERATOR_TYPE,
            keys.KEY_GENERATOR_CLASS,
            "hoodie.datasource.write.keygenerator.type",
            "hoodie.datasource.write.keygenerator.class",
        ),
        _generator,
        _table_generator,
    ),
    (
        (keys.MERGE_MODE, "hoodie.write.record.merge.mode"),
        str.upper,
        lambda config: config.merge_mode.value,
    ),
    (
        (keys.PAYLOAD_CLASS, "hoodie.datasource.write.payload.class"),
        _payload,
        lambda config: config.merge_mode.value,
    ),
    (
        (
            *keys.MERGE_STRATEGY_ID_NAMES,
            "hoodie.write.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
        ),
        _strategy,
        lambda config: config.merge_mode.value,
    ),
    (
        (keys.HIVE_STYLE_PARTITIONING,),
        str.lower,
        lambda config: flag_text(config.hive_style_partitioning),
    ),
    (
        (keys.URL_ENCODE_PARTITIONING,),
        str.lower,
        lambda config: flag_text(config.url_encode_partitioning),
    ),
    (
        (keys.DROP_PARTITION_COLUMNS,),
        str.lower,
        lambda config: flag_text(config.drop_partition_columns),
    ),
    (
        (keys.SLASH_SEPARATED_DATES,),
        str.lower,
        lambda config: flag_text(config.slash_separated_dates),
    ),
    (
        (keys.POPULATE_META_FIELDS,),
        str.lower,
        lambda config: flag_text(config.populate_meta_fields),
    ),
    (
        (keys.BASE_FILE_FORMAT, "hoodie.base.file.format"),
        str.upper,
        lambda config: config.base_file_format,
    ),
    (
        (keys.TIMELINE_TIMEZONE,),
        str.upper,
        lambda config: config.timezone.value,
    ),
    ((keys.HASHED_FOLDERS,), _same, lambda config: config.raw.get(keys.HASHED_FOLDERS, "")),
    ((keys.OTHER_ROOTS,), _same, lambda config: config.raw.get(keys.OTHER_ROOTS, "")),
    (
        (keys.TIMELINE_LAYOUT_VERSION,),
        _same,
        lambda config: str(config.timeline_layout),
    ),
)

RESTATED: Final = frozenset([*(name for names, _, _ in _RESTATED for name in names), _LOCK_FOLDER])
"""Names of the options that are compared with the table."""


def check_restated(config: TableConfig, given: Mapping[str, str]) -> None:
    """Refuse options that differ from what the table says.

    Raises:
        InvalidInput: an option contradicts the table; both values are named.
        UnsupportedFeature: an option needs something that lakedex does not have.
    """
    for names, normal, stored in _RESTATED:
        for name in names:
            if name in given:
                wanted, known = _normal(name, given[name], normal), stored(config)
                if wanted != normal(known):
                    raise InvalidInput(
                        f"{name}={given[name]!r} contradicts table {config.name}, "
                        f"which has {known!r}"
                    )
    folder = given.get(_LOCK_FOLDER, keys.META_FOLDER).strip().rstrip("/")
    if folder.rpartition("/")[2] != keys.META_FOLDER:
        # Whoever looks for the lock elsewhere does not keep out who looks for it here.
        raise UnsupportedFeature(f"{_LOCK_FOLDER}={folder[:200]} (the lock is in the table)")
    _check_timebased(config, given)


def _normal(name: str, value: str, normal: Callable[[str], str]) -> str:
    try:
        return normal(value.strip())
    except UnsupportedFeature as error:
        raise UnsupportedFeature(f"{name}={value[:200]} ({error.feature})") from error


def is_timebased(name: str) -> bool:
    """Whether an option belongs to the time-based key generator."""
    return name.startswith((keys.TIMEBASED_KEYGEN_PREFIX, keys.TIMEBASED_KEYGEN_PREFIX_OLD))


def _check_timebased(config: TableConfig, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if is_timebased(name):
            short = name.removeprefix(keys.TIMEBASED_KEYGEN_PREFIX_OLD)
            short = short.removeprefix(keys.TIMEBASED_KEYGEN_PREFIX)
            known = config.timebased_keygen.get(short)
            if known is None or known.strip() != value.strip():
                raise InvalidInput(
                    f"{name}={value!r} contradicts table {config.name}, which has {known!r}"
                )
