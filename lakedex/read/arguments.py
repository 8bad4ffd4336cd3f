"""Arguments of the public face that are lists of names or texts, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.schema.flat_columns import flat


def names_in(argument: str, given: object) -> list[str]:
    """The texts of an argument that is a list of them."""
    if isinstance(given, str):
        raise InvalidInput(f"{argument} must be a list of names, not the text {given!r}")
    names: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"{argument} takes names, not {name!r}")
    return names


def texts_in(argument: str, given: object) -> pa.Array:
    """The texts of an argument that is a list or an Arrow column of them."""
    if not isinstance(given, pa.Array | pa.ChunkedArray):
        return pa.array(names_in(argument, given), pa.string())
    column = given.cast(pa.string()) if given.type == pa.large_string() else given
    if column.type != pa.string() or column.null_count:
        raise InvalidInput(f"{argument} takes texts, none of them null, not {column.type}")
    return flat(column)
