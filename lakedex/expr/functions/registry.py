"""All scalar functions by name; Spark's other names for them are aliases."""

from __future__ import annotations

import difflib

from lakedex.errors import InvalidInput
from lakedex.expr.functions import arithmetic, conditions, datetimes, strings
from lakedex.expr.functions.spec import FunctionSpec

_MODULES = (arithmetic, conditions, datetimes, strings)
_FUNCTIONS: dict[str, FunctionSpec] = {
    spec.name: spec for module in _MODULES for spec in module.FUNCTIONS
}
_ALIASES = {
    "regexp_like": "rlike",
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "mod": "%",
    "remainder": "%",
    "unary_minus": "negative",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "btrim": "trim",
    "to_unix_timestamp": "unix_timestamp",
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "day": "dayofmonth",
    "lcase": "lower",
    "len": "length",
    "substr": "substring",
    "ucase": "upper",
    "||": "concat",
}


def canonical_name(name: str) -> str:
    """The name under which a function is registered; an unknown name is returned unchanged.

    Example:
        >>> canonical_name("DAY"), canonical_name("nope")
        ('dayofmonth', 'nope')
    """
    lowered = name.lower()
    return _ALIASES.get(lowered, lowered)


def function(name: str) -> FunctionSpec:
    """Look up a function.

    Raises:
        InvalidInput: The name is unknown; the message suggests the nearest known ones.

    Example:
        >>> function("substr").name
        'substring'
    """
    found = _FUNCTIONS.get(canonical_name(name))
    if found is None:
        near = difflib.get_close_matches(name.lower(), function_names(), n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise InvalidInput(f"unknown function {name!r}{hint}")
    return found


def function_names() -> list[str]:
    """All names of functions, including aliases, sorted."""
    return sorted({*_FUNCTIONS, *_ALIASES})
