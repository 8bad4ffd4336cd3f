"""The words of SQL that mean something this language does not have, and how to say so."""

from __future__ import annotations

ALLOWED = (
    "allowed are columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CAST "
    "and scalar functions"
)
"""The end of every refusal."""

_AGGREGATES = frozenset(
    {"COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "FIRST", "LAST", "FIRST_VALUE", "LAST_VALUE"}
    | {"COLLECT_LIST", "COLLECT_SET", "ANY_VALUE", "STDDEV", "VARIANCE", "EVERY", "PERCENTILE"}
    | {"APPROX_COUNT_DISTINCT", "COUNT_IF", "MAX_BY", "MIN_BY"}
)
_WINDOWS = frozenset({"OVER", "ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD"})
_STATEMENTS = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "FROM", "WHERE"}
    | {"GROUP", "ORDER", "HAVING", "LIMIT", "UNION"}
)

REFUSED_WORDS: dict[str, str] = {
    **dict.fromkeys(_AGGREGATES, "an aggregate"),
    **dict.fromkeys(_WINDOWS, "a window function"),
    **dict.fromkeys(_STATEMENTS, "a statement or a clause"),
    **dict.fromkeys(("?", ":", "@", "$", "{"), "a parameter"),
    "EXISTS": "a subquery",
    "CASE": "CASE",
    ";": "a second statement",
    "*": "'*'",
    "->": "a lambda",
}
"""What each refused word or sign stands for, in the words of the message."""

NOT_NAMES = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "ESCAPE", "DIV", "RLIKE", "ILIKE", "REGEXP"}
    | {"CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "TRY_CAST", "AS", "DISTINCT", "EXISTS"}
    | {"SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "UNION", "JOIN", "ON", "OVER"}
)
"""Words that can be a column only in back-quotes."""

_UNITS = {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"}

INTERVAL_UNITS = frozenset(_UNITS | {f"{unit}S" for unit in _UNITS} | {"TO"})
"""What may follow the number of an INTERVAL."""
