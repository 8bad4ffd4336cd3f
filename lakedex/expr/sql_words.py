"""The words of SQL that mean something this language does not have, and how to say so."""

from __future__ import annotations

ALLOWED = (
    "allowed are columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CAST "
    "and scalar functions"
)
"""The end of every refusal."""

_AGGREGATES = (
    "COUNT SUM AVG MEAN MIN MAX FIRST LAST FIRST_VALUE LAST_VALUE COLLECT_LIST COLLECT_SET ANY_VALUE "
    "STDDEV VARIANCE EVERY APPROX_COUNT_DISTINCT PERCENTILE COUNT_IF MAX_BY MIN_BY"
).split()
_WINDOWS = "OVER ROW_NUMBER RANK DENSE_RANK NTILE LAG LEAD".split()
_STATEMENTS = (
    "SELECT INSERT UPDATE DELETE MERGE CREATE DROP ALTER FROM WHERE GROUP ORDER HAVING LIMIT UNION"
).split()

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
    "AND OR NOT IN IS LIKE BETWEEN ESCAPE CASE WHEN THEN ELSE END SELECT FROM WHERE DISTINCT AS "
    "EXISTS GROUP ORDER HAVING UNION JOIN ON CAST TRY_CAST DIV RLIKE ILIKE REGEXP OVER".split()
)
"""Words that can be a column only in back-quotes."""

INTERVAL_UNITS = frozenset(
    unit + plural
    for unit in ("YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND").split()
    for plural in ("", "S")
) | {"TO"}
"""What may follow the number of an INTERVAL."""
