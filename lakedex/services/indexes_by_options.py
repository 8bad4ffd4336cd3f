"""An expression index that write options ask for, as Hudi spells them.

`hoodie.metadata.index.expression.column` names the column, and the option of the same beginning
that ends in `options` says what is computed of it (`expr='from_unixtime', format='yyyy-MM-dd'`);
`hoodie.index.name` is what the index is called, `hoodie.expression.index.type` its kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakedex.config import write_option_names as names_of
from lakedex.errors import InvalidInput
from lakedex.services.expression_creating import EXPR
from lakedex.services.index_creating import create_index
from lakedex.write.verbs import TableWriter

_OPTION = re.compile(
    r"""\s*(?P<name>[\w.]+)\s*=\s*
    (?:(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<plain>[^,'"]+?))
    \s*(?:,(?=\s*[\w.])|$)""",
    re.VERBOSE,
)
"""A name and a value, in quotes or, as Hudi reads it, up to the next comma."""
_ESCAPED = re.compile(r"\\(['\"\\])")


def make_index_of_options(writer: TableWriter, options: Mapping[str, str]) -> None:
    """Build the expression index that options of a write ask for, if there is none of its name.

    It is there before the write begins: what is wrong with it leaves the table as it was.

    Raises:
        InvalidInput: Something in the options is wrong.
        UnsupportedFeature: The function or the kind of index.
    """
    column = names_of.EXPRESSION_COLUMN.text(options)
    if not column:
        return
    arguments = read_index_options(names_of.EXPRESSION_OPTIONS.text(options))
    if EXPR not in arguments:
        raise InvalidInput(
            f"{names_of.EXPRESSION_OPTIONS.name} has no {EXPR}, such as {EXPR}='lower'"
        )
    create_index(
        writer,
        names_of.INDEX_NAME.text(options) or column,
        column,
        using=names_of.EXPRESSION_TYPE.text(options).lower(),
        options=arguments,
        if_missing=True,
    )


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
