"""Record keys: how the key columns of a row become one string.

    one field         the value as text: `k1`, `77`
    several fields    `id:1,name:a`, in the order of the table's key fields; null is `__null__`
                      and the empty string `__empty__`

Values are not escaped, so a composite key is built from values, never taken apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

NULL_TEXT = "__null__"
EMPTY_TEXT = "__empty__"


@dataclass(frozen=True, slots=True)
class RecordKeyFormat:
    """The key fields of a table and whether their names stand in the key."""

    fields: tuple[str, ...]
    names_fields: bool | None = None
    """None where a one-field key may or may not carry its field's name."""

    def keys(self, rows: Iterable[tuple[object, ...]]) -> list[str] | None:
        """The record keys that rows with these key values may have; None if that is not sure.

        Example:
            >>> RecordKeyFormat(("a", "b"), True).keys([(1, "x"), (2, None)])
            ['a:1,b:x', 'a:2,b:__null__']
            >>> RecordKeyFormat(("a",), None).keys([(1,)])
            ['1', 'a:1']
        """
        if self.names_fields is False and len(self.fields) == 1:
            return _plain_keys([value for (value,) in rows])
        found: list[str] = []
        for row in rows:
            texts = [_text(value) for value in row]
            if any(text is None for text in texts):
                return None
            named = ",".join(
                f"{name}:{text}" for name, text in zip(self.fields, texts, strict=True)
            )
            if self.names_fields is not True and len(texts) == 1:
                if row[0] is None:
                    continue
                found.append(str(texts[0]) if row[0] != "" else "")
            if self.names_fields is not False:
                found.append(named)
        return found

    @staticmethod
    def can_spell(data_type: pa.DataType) -> bool:
        """Whether the text of every value of the type in a key is known for sure."""
        return bool(
            pa.types.is_string(data_type)
            or pa.types.is_large_string(data_type)
            or pa.types.is_integer(data_type)
            or pa.types.is_boolean(data_type)
        )


def _plain_keys(values: list[object]) -> list[str] | None:
    """Keys of one column, of which there may be very many."""
    found = [value if isinstance(value, str) else _text(value) for value in values]
    if any(text is None for text in found):
        return None
    return [str(text) for value, text in zip(values, found, strict=True) if value is not None]


def _text(value: object) -> str | None:
    if value is None:
        return NULL_TEXT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value or EMPTY_TEXT
    return None
