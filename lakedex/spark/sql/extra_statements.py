"""Runs the statements of the extra grammar, also within scripts (BEGIN ... END) of Spark 4.

Spark parses a script as a whole. So each such statement in it becomes a CALL, which Spark's grammar
has, and which is passed to lakedex when the script reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lakedex.errors import InvalidDefinition
from lakedex.expr.sql_lexer import Token, complaint, tokenise
from lakedex.spark.sql import indexing
from lakedex.spark.sql.context import Context, Prepared
from lakedex.spark.sql.describing import explained
from lakedex.spark.sql.extra_grammar import Extra, Literal, Parameters, begins_extra, parse_extra
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, listed
from lakedex.spark.sql.procedures.procedure import bind
from lakedex.spark.sql.procedures.registry import PROCEDURES, REFUSED

_PLAIN = (bool, int, float, str)
_PREFIXES = ("spark_catalog.", "system.")
"""What may stand before a procedure's name; as in Hudi it says nothing."""


def prepare_extra(
    context: Context, text: str, plan: Node = None, *, args: Parameters | None = None
) -> Prepared | None:
    """A statement that Spark's grammar lacks; None where it is none, or not about our tables.

    Args:
        context: The session.
        text: The statement.
        plan: What Spark's parser made of it where it took it, as Spark 4 takes CALL.
        args: The values of its parameters.
    """
    # With values for parameters Spark runs what is not ours.
    is_parsed = plan is not None or args is not None
    extra = parse_extra(text, args, [] if plan is None else _filled(plan))
    if extra is None:
        return None
    if extra.verb == "call" and extra.name == STATEMENT:
        return prepare_extra(context, inner_statement(str(extra.arguments[0])))
    prepared = _prepared(context, text, extra, is_parsed=is_parsed)
    # Where Spark's parser took an EXPLAIN, the answer is put into it elsewhere.
    is_whole = args is None and is_parsed
    if prepared is None or not extra.is_explained or is_whole:
        return prepared
    return explained(context, prepared)


def _filled(plan: Node) -> list[Literal]:
    """The arguments of a CALL as Spark read it, where all are plain values."""
    found: list[Literal] = []
    for each in listed(plan.args()) if kind(plan) == "Call" else []:
        value = each.value() if kind(each) == "NamedArgumentExpression" else each
        if kind(value) != "Literal":
            return []
        plain = value.value()
        found.append(plain if plain is None or isinstance(plain, _PLAIN) else str(plain))
    return found


def _prepared(context: Context, text: str, extra: Extra, *, is_parsed: bool) -> Prepared | None:
    if extra.verb == "call":
        return _call(context, text, extra, is_parsed=is_parsed)
    if extra.verb == "drop index" and not extra.table:
        run = partial(indexing.drop_anywhere, context, extra.name, if_there=extra.if_exists)
        return Prepared(run)
    named = context.names.find(extra.table)
    if named is None:
        raise complaint(text, extra.position, f"there is no Hudi table {'.'.join(extra.table)!r},")
    return _on_table(context, extra, named)


def _on_table(context: Context, extra: Extra, named: NamedTable) -> Prepared | None:
    if extra.verb == "show indexes":
        return Prepared(partial(indexing.show, context, named), is_query=True)
    if extra.verb == "refresh index":
        return Prepared(partial(indexing.refresh, context, named, extra.name))
    if extra.verb == "create index":
        return Prepared(
            partial(
                indexing.create_index,
                context,
                named,
                extra.name,
                [extra.expression] if extra.expression else extra.columns,
                using=extra.using,
                settings=extra.settings,
                if_missing=extra.if_exists,
            ),
            columns=indexing.BUILT,
        )
    return None


def _call(context: Context, text: str, extra: Extra, *, is_parsed: bool) -> Prepared | None:
    name = extra.name
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    procedure = PROCEDURES.get(name)
    if procedure is None:
        if is_parsed and ("." in name or context.names.is_elsewhere):
            return None
        if name in REFUSED:
            message = f"the procedure {name} is not there ({REFUSED[name]}),"
            raise complaint(text, extra.position, message)
        known = ", ".join(sorted(PROCEDURES))
        raise complaint(text, extra.position, f"there is no procedure {name!r}, only {known},")
    values = bind(text, extra, procedure)
    return Prepared(
        partial(procedure.answer, context, values),
        is_query=not procedure.changes,
        columns=procedure.columns,
        title=f"CALL {name}: it runs when it is called, and reads no rows of a query",
    )


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
