"""Random SQL predicates over the columns of `filter_zoo`, in the words of users.

Scalar expressions are listed by the type they give, and meet constants of that type or of one that
Spark brings together with it. Those that raise errors in ANSI mode for some row stand apart.
"""

from __future__ import annotations

import random

OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
UNITS = ["YEAR", "quarter", "month", "week", "day", "HOUR", "minute", "second"]
PATTERNS = ["yyyy-MM-dd", "yyyy", "yyyyMMddHHmmss", "MM/yyyy", "HH"]

EXPRESSIONS: dict[str, list[str]] = {
    "boolean": ["b", "i > 20", "coalesce(b, true)", "cast(i as boolean)", "contains(s, 'b')"],
    "int": [
        *["i", "i", "a.no", "year(z)", "year(t)", "year(w)", "month(z)", "dayofmonth(t)"],
        *["hour(z)", "minute(w)", "quarter(t)", "dayofweek(z)", "weekofyear(t)", "dayofyear(z)"],
        *["length(s)", "datediff(t, DATE'2021-03-28')", "i % 7", "i & 12"],
        *["coalesce(i, 5)", "if(i > 20, i, 10)", "greatest(i, 10)", "least(i, 10)", "nullif(i, 5)"],
        *["case when i > 50 then 1 when s > 'b' then 2 end", "cast(b as int)", "weekday(t)"],
    ],
    "bigint": [
        *["l", "l", "unix_timestamp(z)", "cast(i as bigint)", "cast(z as bigint)"],
        *["to_unix_timestamp(t)"],
    ],
    "double": ["d", "d", "cast(f as double)", "cast(l as double)", "cast(n as double)", "i / 2"],
    "float": ["f", "cast(i as float)", "cast(d as float)"],
    "decimal": [
        *[
            "n",
            "m",
            "cast(n as decimal(14,4))",
            "n + 1",
            "n - 0.25",
            "n * 2",
            "cast(i as decimal(12,1))",
        ],
        *["ceil(n)", "floor(n)"],
    ],
    "string": [
        *["s", "s", "a.zip", "p", "upper(s)", "lower(s)", "trim(s)", "substring(s, 1, 2)"],
        *["substring(s, 2)", "left(s, 3)", "right(s, 2)", "concat(s, 'b')", "reverse(s)"],
        *["cast(i as string)", "cast(t as string)", "cast(z as string)", "cast(b as string)"],
        *[f"date_format(z, '{pattern}')" for pattern in PATTERNS],
        *[
            "from_unixtime(l % 100000)",
            "replace(s, 'b', 'c')",
            "lpad(s, 4, '0')",
            "rpad(s, 3, ' ')",
        ],
    ],
    "date": [
        *["t", "t", "to_date(z)", "cast(w as date)", "date_add(t, 3)", "date_sub(t, 40)"],
        *[
            "last_day(t)",
            "trunc(t, 'MM')",
            "trunc(z, 'year')",
            "trunc(t, 'week')",
            "to_date(z) + 1",
        ],
    ],
    "timestamp": [
        *["z", "z", "cast(t as timestamp)", "cast(w as timestamp)"],
        *[f"date_trunc('{unit}', z)" for unit in UNITS],
        "date_trunc('day', w)",
    ],
    "timestamp_ntz": ["w", "w", "cast(z as timestamp_ntz)", "cast(t as timestamp_ntz)"],
}
RAISING: dict[str, list[str]] = {
    "boolean": ["cast(s as boolean)"],
    "int": ["i + 5", "i - 7", "i * 2", "-i", "abs(i)", "cast(s as int)", "cast(d as int)"],
    "bigint": ["l + 1", "cast(n as bigint)", "unix_timestamp(s)", "floor(d)", "cast(s as bigint)"],
    "double": ["cast(s as double)", "d / i"],
    "decimal": ["cast(n as decimal(3,1))", "cast(s as decimal(8,2))"],
    "date": ["cast(s as date)", "to_date(s, 'yyyy-MM-dd')"],
    "timestamp": ["cast(s as timestamp)", "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')"],
    "timestamp_ntz": ["cast(s as timestamp_ntz)"],
}
_DAYS = ["2021-03-28", "2021-10-31", "2021-11-07", "2024-02-29", "2020-12-31", "1970-01-01"]
_HOURS = ["00:00:00", "02:30:00", "01:30:00", "23:30:00", "12:00:00.000001"]
CONSTANTS: dict[str, list[str]] = {
    "boolean": ["true", "false", "null"],
    "int": [
        *map(str, range(-30, 90, 5)),
        "2021",
        "2024",
        "3",
        "2147483647",
        "12.5",
        "'25'",
        "null",
    ],
    "bigint": [
        "0",
        "5",
        "90000001",
        "1635638400",
        "9007199254740993",
        "9223372036854775807",
        "7.5",
    ],
    "double": ["0.0D", "-0.0D", "1.5", "7", "0.1", "double('NaN')", "double('Infinity')", "-2.5D"],
    "float": ["0.5", "float('NaN')", "float(0.5)", "2", "0.1"],
    "decimal": ["0", "-3.25", "1.005", "7", "4.5D", "3.0000000003", "9.99", "null"],
    "string": [
        *["''", "'a'", "'ab'", "'5'", "'city-07'", "'city-1'", "'2021'", "'2021-10-31'", "'A'"],
        *["'\\uffff'", "'𝒜'", "'00'", "'15000'", "'07'", "'10'", "'zz'", "'é'", "'true'", "null"],
    ],
    "date": [f"{word}'{day}'" for word in ("DATE", "", "TIMESTAMP") for day in _DAYS],
    "timestamp": [
        *(f"TIMESTAMP'{day} {hour}'" for day in _DAYS for hour in _HOURS),
        *("DATE'2021-10-31'", "'2024-01-01'", "TIMESTAMP'2021-10-31 00:30:00Z'"),
    ],
    "timestamp_ntz": [f"TIMESTAMP_NTZ'{day} {hour}'" for day in _DAYS for hour in _HOURS],
}
_LIKES = ["a%", "city-0%", "%b", "%b%", "a_b", "a\\\\_b%", "_", "", "%", "c%7", "ci_y%", "é%"]
_PAIRS = [("i", "l"), ("z", "t"), ("d", "n"), ("w", "z"), ("s", "a.zip"), ("n", "m"), ("f", "d")]


def random_filter(dice: random.Random, *, raising: bool, depth: int = 2) -> str:
    """A condition; with `raising` also such that ANSI mode may refuse."""
    if depth == 0 or dice.random() < 0.55:
        return _leaf(dice, raising=raising)
    inner = [random_filter(dice, raising=raising, depth=depth - 1) for _ in range(2)]
    match dice.choice(["and", "or", "or", "not"]):
        case "not":
            return f"not ({inner[0]})"
        case word:
            return f"({inner[0]}) {word} ({inner[1]})"


def _leaf(dice: random.Random, *, raising: bool) -> str:
    kind = dice.choice(list(EXPRESSIONS))
    listed = EXPRESSIONS[kind] + (RAISING.get(kind, []) if raising else [])
    subject = f"({dice.choice(listed)})"
    match dice.choice(["compare", "compare", "compare", "in", "between", "null", "like", "pair"]):
        case "compare":
            sides = [subject, dice.choice(CONSTANTS[kind])]
            dice.shuffle(sides)
            return f"{sides[0]} {dice.choice(OPERATORS)} {sides[1]}"
        case "in":
            # A list of constants as written would make Spark compare as text.
            values = [
                each
                for each in CONSTANTS[kind]
                if raising or kind == "string" or "'" not in each[:1]
            ]
            count = dice.choice([1, 2, 3, 14])
            return f"{subject} in ({', '.join(dice.choices(values, k=count))})"
        case "between":
            low, high = dice.choices(CONSTANTS[kind], k=2)
            return f"{subject} between {low} and {high}"
        case "null":
            return f"{subject} is {dice.choice(['', 'not '])}null"
        case "like":
            text = dice.choice(EXPRESSIONS["string"])
            return f"{text} {dice.choice(['', 'not '])}like '{dice.choice(_LIKES)}'"
    if dice.random() < 0.2:
        return dice.choice(["isnan(d)", "isnan(f)", "b", "not b"])
    left, right = dice.choice(_PAIRS)
    return f"{left} {dice.choice(OPERATORS)} {right}"
