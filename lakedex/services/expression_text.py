"""An indexed expression as SQL text: `date_format(ts, 'yyyy-MM-dd')`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakedex.expr.functions.registry import canonical_name
from lakedex.expr.sql import parse_expression
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal, columns_of
from lakedex.index.kinds.expression.own import source_names
from lakedex.services.expression_creating import EXPR, FUNCTIONS
from lakedex.services.own_expressions import is_expression, parse_scalar

_TO_DATE = "to_date"
_BY_CANONICAL_NAME = {canonical_name(name): name for name in FUNCTIONS}


def read_columns(index: str, columns: list[str]) -> tuple[list[str], dict[str, str]]:
    """The columns of an index, and the options that say the same as an expression among them.

    Example:
        >>> read_columns("i", ["upper(name)"])
        (['name'], {'expr': 'upper'})
        >>> read_columns("i", ["cast(at as date)"])
        (['at'], {'expr': 'to_date'})
        >>> read_columns("i", ["name"])
        (['name'], {})
    """
    if len(columns) != 1 or not is_expression(columns[0]):
        return columns, {}
    return read_expression(index, columns[0])


def with_spelled_function(columns: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """The options of an index as Hudi has them where `expr` is a whole call that it knows.

    Example:
        >>> with_spelled_function(["ts"], {"expr": "from_unixtime(ts, 'yyyy')"})
        {'expr': 'from_unixtime', 'format': 'yyyy'}
        >>> with_spelled_function(["ts"], {"expr": "year"})
        {'expr': 'year'}
    """
    given = dict(options)
    if not is_expression(given.get(EXPR, "")):
        return given
    known = _as_hudi_has_it(parse_expression(given[EXPR]))
    if known is None:
        return given
    own, spelled = known
    is_alike = [each.lower() for each in own] == [each.lower() for each in columns]
    return {**given, **spelled} if is_alike and given.keys() & spelled.keys() == {EXPR} else given


def read_expression(index: str, text: str) -> tuple[list[str], dict[str, str]]:
    """The columns of an expression, and the options that say what is computed of them.

    A function of one column that Hudi knows has options for its other arguments; every other
    expression is an option itself.

    Example:
        >>> read_expression("i", "date_format(ts, 'yyyy-MM-dd')")
        (['ts'], {'expr': 'date_format', 'format': 'yyyy-MM-dd'})
        >>> read_expression("i", "upper(trim(name))")
        (['name'], {'expr': 'upper(trim(name))'})

    Raises:
        InvalidDefinition: It is no expression; the place is shown.
        UnsupportedFeature: It is none that can be indexed.
    """
    tree = parse_expression(text)
    known = _as_hudi_has_it(tree)
    if known is not None:
        return known
    names = source_names(columns_of(parse_scalar(index, text)))
    return list(names), {EXPR: text.strip()}


def _as_hudi_has_it(tree: Expr) -> tuple[list[str], dict[str, str]] | None:
    """A function of a column that Hudi knows too, with constants for its other arguments."""
    if isinstance(tree, Cast) and pa.types.is_date(tree.type):
        # Spark's optimiser leaves only the bare column of a comparison with such a cast, and that
        # is asked of functions that Hudi knows.
        tree = Call(_TO_DATE, (tree.child,))
    if not isinstance(tree, Call) or not tree.arguments:
        return None
    name = _BY_CANONICAL_NAME.get(canonical_name(tree.function))
    column, *rest = tree.arguments
    if name is None or not isinstance(column, Column):
        return None
    signature = FUNCTIONS[name]
    options = (*signature.needed, *signature.allowed)
    texts = [
        str(each.value) for each in rest if isinstance(each, Literal) and each.value is not None
    ]
    if len(texts) < len(rest) or not len(signature.needed) <= len(rest) <= len(options):
        return None
    return [".".join(column.path)], {EXPR: name, **dict(zip(options, texts, strict=False))}
