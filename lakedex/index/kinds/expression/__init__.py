"""Expression indexes: ranges or bloom filters over a function of a column."""

from lakedex.index.kinds.expression.definition import indexed_expression
from lakedex.index.kinds.expression.lookup import ExpressionIndex

__all__ = ["ExpressionIndex", "indexed_expression"]
