"""Scripts of Spark 4 (BEGIN ... END) with statements that Spark's grammar lacks.

Spark reads a script as a whole. So each such statement becomes a CALL, which Spark's grammar has,
and which we are asked about when the script comes to it.
"""

from __future__ import annotations

from collections.abc import Callable

from lakedex.errors import InvalidDefinition
from lakedex.expr.sql_lexer import Token, tokenise
from lakedex.spark.sql.extra_grammar import begins_extra

STATEMENT = "lakedex_statement"
"""What a script calls in the place of a statement; the text of that is its argument."""
_BEFORE = frozenset(["BEGIN", "ATOMIC", "THEN", "ELSE", "DO", "LOOP", "REPEAT", ";"])
"""What a statement of a script stands behind."""


def with_calls(text: str, is_known: Callable[[str], bool]) -> str | None:
    """A script whose statements Spark can all read; None where it is none, or needs no change.

    Args:
        text: The text.
        is_known: Whether Spark's own grammar has a statement.

    Example:
        >>> with_calls("BEGIN SHOW INDEXES t; END", lambda _: False)
        "BEGIN CALL lakedex_statement('53484f5720494e44455845532074'); END"
        >>> inner_statement("53484f5720494e44455845532074")
        'SHOW INDEXES t'
    """
    try:
        tokens = tokenise(text)
    except InvalidDefinition:
        return None
    if tokens[0].keyword != "BEGIN" and [each.keyword for each in tokens[1:3]] != [":", "BEGIN"]:
        return None
    parts, done = [], 0
    for start, end in _own(tokens):
        statement = text[start:end].rstrip()
        if not is_known(statement):
            # As digits, so that no quote or backslash in it is read in another way.
            parts += [text[done:start], f"CALL {STATEMENT}('{statement.encode().hex()}')"]
            done = end
    return "".join([*parts, text[done:]]) if parts else None


def inner_statement(digits: str) -> str:
    """The statement in the place of which a script has a CALL."""
    return bytes.fromhex(digits).decode()


def _own(tokens: list[Token]) -> list[tuple[int, int]]:
    """Where statements begin and end that begin as ours do."""
    found = []
    for at in range(1, len(tokens) - 1):
        if tokens[at - 1].keyword in _BEFORE and begins_extra(tokens[at:]):
            ends = (each.start for each in tokens[at:] if each.keyword == ";")
            found.append((tokens[at].start, next(ends, tokens[-1].start)))
    return found
