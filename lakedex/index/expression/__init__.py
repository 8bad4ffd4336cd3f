"""Expression indexes: ranges or bloom filters over a function of a column."""

from lakedex.index.expression.definition import indexed_expression
from lakedex.index.expression.lookup import ExpressionIndex

__all__ = ["ExpressionIndex", "indexed_expression"]
