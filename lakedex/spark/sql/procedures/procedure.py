"""A procedure: its parameters, the columns of its result, and its function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakedex.config.option_check import check_options, did_you_mean
from lakedex.errors import InvalidInput
from lakedex.expr.sql_lexer import complaint
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.extra_grammar import Extra, Literal
from lakedex.spark.sql.partitions import partition_paths
from lakedex.spark.table import SparkTable

Values: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "Iterable[tuple[Any, ...]]"
Parameters: TypeAlias = "Mapping[str, Literal | type]"
PLACE: Parameters = {"table": str, "path": str}
"""The table of a call, by its name or by its path."""
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class Procedure:
    """A procedure that CALL knows."""

    parameters: Parameters
    """By name in their order, each with its default, or with its type where there is none."""
    columns: str
    """Of the answer, as Spark's DDL."""
    run: Callable[[Context, Values], Rows]
    changes: bool = False
    """Whether it does more than to look."""
    needs: tuple[str, ...] = ()
    """Parameters that a call must give; of `table` and `path` it always gives one."""
    range: tuple[str, ...] = ()
    """Parameters that together say which rows there are: with all of them `limit` is ignored."""

    def answer(self, context: Context, values: Values) -> DataFrame:
        """Run it; the rows that the call's `filter` wants, as many as its `limit` says."""
        found, limit = iter(self.run(context, values)), values.get("limit")
        in_range = bool(self.range) and all(values[name] for name in self.range)
        most = None if limit is None or limit < 0 or in_range else int(limit)
        if not (values.get("filter") or "").strip():
            return context.spark.createDataFrame(list(islice(found, most)), self.columns)
        rows = _filtered(context.spark.createDataFrame(list(found), self.columns), values["filter"])
        return rows if most is None else rows.limit(most)


def _filtered(rows: DataFrame, condition: str) -> DataFrame:
    try:
        return rows.filter(condition)
    except (PySparkException, Py4JError) as error:
        shown = ", ".join(rows.columns)
        raise InvalidInput(f"filter => {condition!r} is no condition on {shown}") from error


def bind(text: str, extra: Extra, procedure: Procedure) -> dict[str, Any]:
    """The values of a procedure's parameters, by name.

    Raises:
        InvalidDefinition: A parameter is unknown, given twice, missing or of another type.
    """
    known = list(procedure.parameters)
    by_case = {name.lower(): name for name in known}
    values = {
        name: None if isinstance(default, type) else default
        for name, default in procedure.parameters.items()
    }
    if len(extra.arguments) > len(known):
        place = extra.places[len(known)]
        raise complaint(text, place, f"{extra.name} takes {', '.join(known)}; too many")
    given = {name.lower(): each for name, each in zip(known, extra.arguments, strict=False)}
    for name in extra.named:
        if name not in by_case or name in given:
            hint = did_you_mean(name, known) or f", only {', '.join(known)}"
            wrong = "is given twice" if name in given else f"is unknown{hint}"
            raise complaint(text, extra.named_places[name], f"{extra.name}: {name!r} {wrong},")
    places = dict(zip(given, extra.places, strict=False)) | extra.named_places
    for name, value in {**given, **extra.named}.items():
        try:
            values[by_case[name]] = _fitting(value, procedure.parameters[by_case[name]])
        except (TypeError, ValueError) as error:
            raise complaint(text, places[name], f"{extra.name}: {error}") from error
    for name in procedure.needs:
        if values[name] is None:
            raise complaint(text, extra.position, f"{extra.name} needs {name} => '...'")
    if "table" in known and not values.get("table") and not values.get("path"):
        raise complaint(text, extra.position, f"{extra.name} needs table => '...'")
    return values


def _fitting(value: Literal, wanted: Literal | type) -> Literal:
    """A value in the type of its parameter; numbers and truths may come as texts."""
    kind = wanted if isinstance(wanted, type) else type(wanted)
    if value is None or kind is type(None):
        return value
    if kind is str:
        return str(value).lower() if isinstance(value, bool) else str(value)
    text = str(value).lower()
    if kind is bool:
        if text not in _TRUTHS:
            raise ValueError(f"{value!r} is neither true nor false,")
        return _TRUTHS[text]
    if isinstance(value, bool) or not text.removeprefix("-").isdigit():
        raise ValueError(f"{value!r} is no whole number,")
    return int(text)


def table_of(context: Context, values: Values, *, may_lack_instants: bool = False) -> SparkTable:
    """The table that a call names, by its path or its name.

    Raises:
        TimelineDamaged: Its timeline lacks instants, unless that does not matter to the call.
    """
    if values.get("path"):
        table = context.lake.table_at(str(values["path"]))
    else:
        table = context.open(context.names.named(str(values["table"])))
    if not may_lack_instants:
        table.snapshot.check_timeline()
    return table


def named(value: Any) -> list[str]:  # noqa: ANN401 - a text or nothing
    """The names in a text that has commas between them.

    Example:
        >>> named("a, b")
        ['a', 'b']
    """
    return [name.strip() for name in str(value or "").split(",") if name.strip()]


def options_of(context: Context, values: Values) -> dict[str, str]:
    """The session's write options, and over them those of the call: `key=value,key=value`."""
    return {**context.write_options(table_of(context, values)), **given_options(values)}


def given_options(values: Values) -> dict[str, str]:
    """The options of a call itself.

    Example:
        >>> given_options({"options": "hoodie.keep.min.commits=4, hoodie.keep.max.commits=5"})
        {'hoodie.keep.min.commits': '4', 'hoodie.keep.max.commits': '5'}
    """
    found: dict[str, str] = {}
    for entry in named(values.get("options")):
        name, mark, value = entry.partition("=")
        if not mark:
            raise InvalidInput(f"options are name=value with commas between, not {entry!r}")
        found[name.strip()] = value.strip()
    check_options(found)
    return found


def matching_paths(table: SparkTable, pattern: str) -> list[str]:
    """The partitions whose whole path matches a regular expression of a call."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise InvalidInput(f"{pattern!r} is no regular expression: {error}") from error
    return [path for path in partition_paths(table) if wanted.fullmatch(path)]
