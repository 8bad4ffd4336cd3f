"""Which of Hudi's operations an INSERT INTO is: the session says, else the table."""

from __future__ import annotations

from collections.abc import Mapping

from lakedex.config.write_option_names import INSERT_DUPLICATES
from lakedex.errors import InvalidInput

WRITE_OPERATION = "hoodie.datasource.write.operation"
INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation"
_INSERT_MODE = "hoodie.sql.insert.mode"
_BULK_INSERT = "hoodie.sql.bulk.insert.enable"
SETTINGS = (WRITE_OPERATION, INSERT_OPERATION, _INSERT_MODE, _BULK_INSERT)
_OPERATIONS = ("insert", "upsert", "bulk_insert")


def insert_operation(
    told: Mapping[str, str], kept: Mapping[str, str], *, has_key: bool
) -> tuple[str, dict[str, str]]:
    """What an INSERT INTO does, and the write options that belong to it.

    As in Hudi the operation of any write goes before that of INSERT, and that before the insert
    mode of earlier releases, which counts where it is all that was said.

    Args:
        told: Settings of the session, or options of a writer.
        kept: Properties of the table.
        has_key: Whether the table has a record key.

    Example:
        >>> insert_operation({"hoodie.sql.insert.mode": "upsert"}, {}, has_key=True)
        ('upsert', {})
        >>> insert_operation({"hoodie.sql.insert.mode": "strict"}, {}, has_key=True)
        ('insert', {'hoodie.datasource.insert.dup.policy': 'fail'})
        >>> insert_operation({}, {}, has_key=True)
        ('insert', {})

    Raises:
        InvalidInput: A setting has a value that is not for INSERT.
    """
    for settings in (told, kept):
        for name in (WRITE_OPERATION, INSERT_OPERATION):
            value = settings.get(name)
            if not value:
                continue
            # A table that a DataFrame made keeps the operation of that write, whatever it was.
            if settings is told or name != WRITE_OPERATION or value.lower() in _OPERATIONS:
                return _checked(name, value, _OPERATIONS), {}
    both = {**kept, **told}
    modes = ("upsert", "strict", "non-strict")
    mode = _checked(_INSERT_MODE, both.get(_INSERT_MODE, "non-strict"), modes)
    is_bulk = str(both.get(_BULK_INSERT, "")).lower() == "true"
    if not has_key or mode == "non-strict":
        return "bulk_insert" if is_bulk else "insert", {}
    if is_bulk:
        raise InvalidInput(
            f"{_BULK_INSERT}=true does not look keys up, as {_INSERT_MODE}={mode} does for a table "
            f"with a key; set {_INSERT_MODE}=non-strict, or {INSERT_OPERATION} alone"
        )
    return ("upsert", {}) if mode == "upsert" else ("insert", {INSERT_DUPLICATES.name: "fail"})


def _checked(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value.lower() not in choices:
        raise InvalidInput(f"of an INSERT {name} is one of {', '.join(choices)}, not {value!r}")
    return value.lower()
