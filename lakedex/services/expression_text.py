"""An indexed expression as SQL text: `date_format(ts, 'yyyy-MM-dd')`."""

from __future__ import annotations

from lakedex.errors import UnsupportedFeature
from lakedex.expr.functions.registry import canonical_name
from lakedex.expr.sql import parse_expression
from lakedex.expr.tree import Call, Column, Expr, Literal
from lakedex.services.expression_creating import EXPR, FUNCTIONS

_BY_CANONICAL_NAME = {canonical_name(name): name for name in FUNCTIONS}


def read_columns(index: str, columns: list[str]) -> tuple[list[str], dict[str, str]]:
    """The columns of an index, and the options that say the same as an expression among them.

    Example:
        >>> read_columns("i", ["upper(name)"])
        (['name'], {'expr': 'upper'})
        >>> read_columns("i", ["name"])
        (['name'], {})
    """
    if len(columns) != 1 or "(" not in columns[0]:
        return columns, {}
    column, options = read_expression(index, columns[0])
    return [column], options


def read_expression(index: str, text: str) -> tuple[str, dict[str, str]]:
    """The column of an expression, and its function with the other arguments as options.

    Example:
        >>> read_expression("i", "date_format(ts, 'yyyy-MM-dd')")
        ('ts', {'expr': 'date_format', 'format': 'yyyy-MM-dd'})

    Raises:
        InvalidDefinition: It is no expression; the place is shown.
        UnsupportedFeature: It is none that can be indexed.
    """
    tree = parse_expression(text)
    if not isinstance(tree, Call):
        raise UnsupportedFeature(f"CREATE INDEX {index} on {text.strip()}, which is no function,")
    name = _BY_CANONICAL_NAME.get(canonical_name(tree.function))
    if name is None:
        known = ", ".join(sorted(FUNCTIONS))
        raise UnsupportedFeature(
            f"CREATE INDEX {index} on the function {tree.function!r} (only {known})"
        )
    column = tree.arguments[0] if tree.arguments else None
    rest = tree.arguments[1:]
    signature = FUNCTIONS[name]
    options = (*signature.needed, *signature.allowed)
    if not isinstance(column, Column) or len(rest) > len(options):
        raise UnsupportedFeature(
            f"CREATE INDEX {index} on {text.strip()}: only a function of a column, with constants,"
        )
    given = zip(options, (_constant(index, each) for each in rest), strict=False)
    return ".".join(column.path), {EXPR: name, **dict(given)}


def _constant(index: str, argument: Expr) -> str:
    if not isinstance(argument, Literal) or argument.value is None:
        raise UnsupportedFeature(f"CREATE INDEX {index} on a function whose arguments vary")
    return str(argument.value)
