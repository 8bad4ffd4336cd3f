"""An expression index that write options ask for, as Hudi spells them.

`hoodie.metadata.index.expression.column` names the column, and the option of the same beginning
that ends in `options` says what is computed of it (`expr='from_unixtime', format='yyyy-MM-dd'`);
`hoodie.index.name` is what the index is called, `hoodie.expression.index.type` its kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakedex.config import write_option_names as names_of
from lakedex.errors import InvalidInput
from lakedex.expr.sql_lexer import Kind, tokenise
from lakedex.services.expression_creating import EXPR
from lakedex.services.index_creating import create_index
from lakedex.write.verbs import TableWriter

_VALUES = (Kind.STRING, Kind.WORD, Kind.NUMBER)


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
    """
    tokens = [token for token in tokenise(text) if token.kind is not Kind.END]
    found: dict[str, str] = {}
    for at in range(0, len(tokens), 4):
        part = tokens[at : at + 4]
        signs = [token.keyword for token in part[1::2]]
        kinds = [token.kind for token in part[::2]]
        is_last = at + 4 >= len(tokens)
        if signs != (["="] if is_last else ["=", ","]) or len(kinds) != 2:
            raise InvalidInput(f"{names_of.EXPRESSION_OPTIONS.name}={text!r} is no list of options")
        if kinds[0] is not Kind.WORD or kinds[1] not in _VALUES:
            raise InvalidInput(f"{names_of.EXPRESSION_OPTIONS.name}={text!r} is no list of options")
        found[part[0].value] = part[2].value
    return found
