"""Indexes that write options ask for, as Hudi spells them.

`hoodie.metadata.index.expression.column` names the column, and the option of the same beginning
that ends in `options` says what is computed of it (`expr='from_unixtime', format='yyyy-MM-dd'`);
`hoodie.index.name` is what the index is called, `hoodie.expression.index.type` its kind.
`hoodie.metadata.index.secondary.column` names the column of a secondary index. With
`lakedex.index.maintenance=async` writers do not maintain the index that is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakedex.config import write_option_names as names_of
from lakedex.errors import InvalidInput
from lakedex.index.definitions import MAINTENANCE
from lakedex.index.expressions import EXPR, CheckedBySpark
from lakedex.services.index_creating import create_index
from lakedex.write.verbs import TableWriter

_OPTION = re.compile(
    r"""\s*(?P<name>[\w.]+)\s*=\s*
    (?:(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<plain>[^,'"]+?))
    \s*(?:,(?=\s*[\w.])|$)""",
    re.VERBOSE,
)
"""A name and a value, in quotes or, as Hudi reads it, up to the next comma."""
_ASKING = frozenset(
    option.name
    for option in (
        names_of.EXPRESSION_COLUMN,
        names_of.EXPRESSION_OPTIONS,
        names_of.EXPRESSION_TYPE,
        names_of.SECONDARY_COLUMN,
        names_of.INDEX_NAME,
        names_of.INDEX_MAINTENANCE,
    )
)
_ESCAPED = re.compile(r"\\(['\"\\])")


def make_indexes_of_options(
    writer: TableWriter, options: Mapping[str, str], check: CheckedBySpark | None = None
) -> None:
    """Build the indexes that options of a write ask for, if there are none of their names.

    They are there before the write begins: what is wrong with one leaves the table as it was.

    Args:
        writer: The table.
        options: The options of the write.
        check: Asks Spark about an expression, where there is a Spark.

    Raises:
        InvalidInput: Something in the options is wrong.
        UnsupportedFeature: The function or the kind of index.
    """
    computed = names_of.EXPRESSION_COLUMN.text(options)
    looked_up = names_of.SECONDARY_COLUMN.text(options)
    name = names_of.INDEX_NAME.text(options)
    maintained = {MAINTENANCE: names_of.INDEX_MAINTENANCE.value(options)}
    if computed and looked_up and (name or computed == looked_up):
        raise InvalidInput(
            f"{names_of.EXPRESSION_COLUMN.name} and {names_of.SECONDARY_COLUMN.name} ask for two "
            f"indexes of the name {name or computed!r}; ask for them in two writes"
        )
    if computed:
        arguments = read_index_options(names_of.EXPRESSION_OPTIONS.text(options))
        if EXPR not in arguments:
            raise InvalidInput(
                f"{names_of.EXPRESSION_OPTIONS.name} has no {EXPR}, such as {EXPR}='lower'"
            )
        create_index(
            writer,
            name or computed,
            computed,
            using=names_of.EXPRESSION_TYPE.text(options).lower(),
            options={**arguments, **maintained},
            if_missing=True,
            check=check,
        )
    if looked_up:
        create_index(writer, name or looked_up, looked_up, options=maintained, if_missing=True)


def asking_for_indexes(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the properties of a new table that ask for indexes.

    Example:
        >>> asking_for_indexes({"hoodie.metadata.index.secondary.column": "city", "type": "cow"})
        {'hoodie.metadata.index.secondary.column': 'city'}
    """
    return {name: value for name, value in options.items() if name in _ASKING}


def read_index_options(text: str) -> dict[str, str]:
    """The options in a text such as `expr='date_format', format='yyyy-MM-dd'`.

    Raises:
        InvalidInput: It is no list of options.

    Example:
        >>> read_index_options("expr='date_format', format='yyyy-MM-dd'")
        {'expr': 'date_format', 'format': 'yyyy-MM-dd'}
        >>> read_index_options("expr=date_format,format=yyyy-MM-dd")
        {'expr': 'date_format', 'format': 'yyyy-MM-dd'}
    """
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        option = _OPTION.match(text, place)
        if option is None or option["name"] in found:
            raise InvalidInput(f"{names_of.EXPRESSION_OPTIONS.name}={text!r} is no list of options")
        quoted, plain = option["quoted"], option["plain"]
        found[option["name"]] = plain if quoted is None else _ESCAPED.sub(r"\1", quoted[1:-1])
        place = option.end()
    return found
