"""The statements that Spark's grammar lacks, read token by token.

SHOW INDEXES [FROM | IN] [TABLE] table
REFRESH INDEX name ON [TABLE] table
DROP INDEX [IF EXISTS] name [ON [TABLE] table]
CREATE INDEX [IF NOT EXISTS] name ON [TABLE] table [USING kind] (expression)
    [[OPTIONS] (option = value, ...)]
CALL [system .] procedure [( [name =>] literal | :parameter | ?, ... )]
{RUN | SCHEDULE} COMPACTION ON {table | 'path'} [AT instant]
SHOW COMPACTION ON {table | 'path'} [LIMIT n]

Each may follow EXPLAIN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakedex.errors import InvalidDefinition
from lakedex.expr.sql_lexer import Kind, Token, complaint, tokenise
from lakedex.index.expressions import is_expression

Literal = str | int | float | bool | None
Parameters = Mapping[str, Any] | Sequence[Any]
_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")
_CONSTANTS: dict[str, Literal] = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True)
class Extra:
    """A statement of this grammar."""

    verb: str
    """`show indexes`, `refresh index`, `drop index`, `create index` or `call`."""
    name: str = ""
    """Of the index or the procedure."""
    table: tuple[str, ...] = ()
    if_exists: bool = False
    using: str = ""
    """The kind of an index."""
    expression: str = ""
    """What an index is on, with blanks for all that stands before it, so that places are right."""
    columns: tuple[str, ...] = ()
    """The columns of an index that is on no expression."""
    settings: dict[str, str] = field(default_factory=dict)
    """The options of an index."""
    is_explained: bool = False
    """Whether EXPLAIN stands before it."""
    position: int = 0
    """Where the name of the table, or of the procedure, stands."""
    arguments: tuple[Literal, ...] = ()
    places: tuple[int, ...] = ()
    """Where the arguments stand."""
    named: dict[str, Literal] = field(default_factory=dict)
    named_places: dict[str, int] = field(default_factory=dict)


def parse_extra(
    text: str, args: Parameters | None = None, filled: Sequence[Literal] = ()
) -> Extra | None:
    """The statement in a text; None where it begins as none of these.

    Args:
        text: The text.
        args: The values of its parameters: by name for `:name`, in order for `?`.
        filled: The arguments of a CALL as Spark read them, with values for parameters.

    Example:
        >>> parse_extra("SHOW INDEXES IN db.trips").table
        ('db', 'trips')
        >>> parse_extra("CALL show_commits(table => 'trips', limit => 3)").named
        {'table': 'trips', 'limit': 3}
        >>> parse_extra("CALL show_commits(:t, 3)", {"t": "trips"}).arguments
        ('trips', 3)

    Raises:
        InvalidDefinition: It begins as one of these, and goes on wrongly; the place is shown.
    """
    try:
        tokens = tokenise(text)
    except InvalidDefinition:
        return None
    before = _explained(tokens)
    if before:
        found = _parsed(_Reader(text, tokens[before:], args, filled), tokens[before:])
        return None if found is None else replace(found, is_explained=True)
    return _parsed(_Reader(text, tokens, args, filled), tokens)


def begins_extra(tokens: list[Token]) -> bool:
    """Whether tokens begin as a statement of this grammar, or a CALL, does."""
    words = tuple(token.keyword for token in tokens[:2])
    return words[:1] == ("CALL",) or words in _VERBS


def _explained(tokens: list[Token]) -> int:
    """How many words of an EXPLAIN stand first."""
    if tokens[0].keyword != "EXPLAIN":
        return 0
    return 2 if tokens[1].keyword in _EXPLAIN_MODES else 1


def _parsed(reader: _Reader, tokens: list[Token]) -> Extra | None:
    if not begins_extra(tokens):
        return None
    if tokens[0].keyword == "CALL":
        return reader.call()
    return _VERBS[tokens[0].keyword, tokens[1].keyword](reader)


class _Reader:
    def __init__(
        self, text: str, tokens: list[Token], args: Parameters | None, filled: Sequence[Literal]
    ) -> None:
        self._args, self._filled = args, filled
        self._asked = 0
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._table_at = 0

    def show(self) -> Extra:
        self._at = 2
        _ = self._took("FROM") or self._took("IN")
        if self._next.kind in (Kind.WORD, Kind.NAME):
            self._took("TABLE")
        table = self._table()
        self._end()
        return Extra("show indexes", table=table, position=self._table_at)

    def refresh(self) -> Extra:
        self._at = 2
        name = self._name("the name of an index")
        table = self._on_table()
        self._end()
        return Extra("refresh index", name, table, position=self._table_at)

    def drop(self) -> Extra:
        self._at = 2
        if_exists = self._if("EXISTS")
        name = self._name("the name of an index")
        table = () if self._token.keyword in ("", ";") else self._on_table()
        self._end()
        return Extra("drop index", name, table, if_exists=if_exists, position=self._table_at)

    def create(self) -> Extra:
        """Only what Spark's own grammar refused comes here.

        That is an index on an expression, or options in parentheses alone, as RFC-63 has them.
        """
        self._at = 2
        if_missing = self._if("NOT", "EXISTS")
        name = self._name("the name of an index")
        table = self._on_table()
        using = self._name("the kind of the index") if self._took("USING") else ""
        opening = self._token.start
        self._need("(")
        first = self._token
        begin = self._at
        last = self._closing()
        content = self._text[first.start : last.start]
        within = self._tokens[begin : self._at]
        computes = not are_names(within)
        self._need(")")
        is_bare = self._token.keyword == "("
        if first is not last and self._token.keyword == "USING":
            problem = "USING and the kind of an index stand before its columns, not here"
            raise complaint(self._text, self._token.start, problem)
        if first is last or not (computes or is_bare):
            raise complaint(self._text, first.start, "columns of an index are expected")
        settings = self._options() if self._took("OPTIONS") or is_bare else {}
        self._end()
        columns = () if computes else joined_names(within)
        expression = " " * first.start + content if computes else ""
        if computes and not is_expression(content):
            # What could be a name, such as n-1, shows by its parentheses that it is none.
            expression = " " * opening + self._text[opening : last.start + 1]
        return Extra(
            "create index",
            name,
            table,
            if_exists=if_missing,
            position=self._table_at,
            using=using,
            expression=expression,
            columns=columns,
            settings=settings,
        )

    def call(self) -> Extra:
        self._at = 1
        position = self._token.start
        name = self._name_parts("the name of a procedure")
        has_list = self._took("(")
        arguments: list[Literal] = []
        places: list[int] = []
        named: dict[str, Literal] = {}
        named_places: dict[str, int] = {}
        while has_list and not self._took(")"):
            if (arguments or named) and not self._took(","):
                raise self._wrong("a comma or a closing parenthesis is expected")
            if self._next.value == "=>":
                place = self._token.start
                key = self._name("the name of a parameter").lower()
                if key in named:
                    raise complaint(self._text, place, f"{key} is given twice")
                self._need("=>")
                value = self._argument(len(arguments) + len(named))
                named[key], named_places[key] = value, place
            elif named:
                raise self._wrong("a value without a name stands after one with a name")
            else:
                places.append(self._token.start)
                arguments.append(self._argument(len(arguments)))
        self._end()
        return Extra(
            "call",
            ".".join(name).lower(),
            position=position,
            arguments=tuple(arguments),
            places=tuple(places),
            named=named,
            named_places=named_places,
        )

    def compaction(self) -> Extra:
        """What release 0.9 of Hudi brought for compaction, as the procedures that do it."""
        verb = self._token.keyword
        self._at = 2
        self._need("ON")
        place = self._token.start
        if self._token.kind is Kind.STRING:
            named: dict[str, Literal] = {"path": self._literal()}
        else:
            named = {"table": ".".join(map(_spelled, self._table()))}
        name = "show_compaction" if verb == "SHOW" else "run_compaction"
        if verb != "SHOW":
            named["op"] = verb.lower()
        word, key = ("LIMIT", "limit") if verb == "SHOW" else ("AT", "timestamp")
        if self._took(word):
            named[key] = self._literal()
        self._end()
        places = dict.fromkeys(named, place)
        return Extra("call", name, position=place, named=named, named_places=places)

    def _options(self) -> dict[str, str]:
        """Options in parentheses: names or texts, each with a value."""
        self._need("(")
        found: dict[str, str] = {}
        while not self._took(")"):
            if found and not self._took(","):
                raise self._wrong("a comma or a closing parenthesis is expected")
            place = self._token.start
            if self._token.kind is Kind.STRING:
                key = str(self._literal())
            else:
                key = ".".join(self._name_parts("the name of an option"))
            _ = self._took("=") or self._took("==")
            value = self._literal()
            if key in found or value is None:
                raise complaint(self._text, place, f"{key} is given twice, or as null")
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    @property
    def _next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _took(self, word: str) -> bool:
        if self._token.keyword != word:
            return False
        self._at += 1
        return True

    def _need(self, word: str) -> None:
        if not self._took(word):
            raise self._wrong(f"{word} is expected")

    def _if(self, *words: str) -> bool:
        if not self._took("IF"):
            return False
        for word in words:
            self._need(word)
        return True

    def _on_table(self) -> tuple[str, ...]:
        self._need("ON")
        self._took("TABLE")
        return self._table()

    def _table(self) -> tuple[str, ...]:
        self._table_at = self._token.start
        return self._name_parts("the name of a table")

    def _closing(self) -> Token:
        """The parenthesis that closes one before the place here, which becomes the place."""
        depth = 1
        while self._token.kind is not Kind.END:
            depth += {"(": 1, ")": -1}.get(self._token.keyword, 0)
            if not depth:
                break
            self._at += 1
        return self._token

    def _name(self, what: str) -> str:
        token = self._token
        if token.kind not in (Kind.WORD, Kind.NAME):
            raise self._wrong(f"{what} is expected")
        self._at += 1
        return token.value

    def _name_parts(self, what: str) -> tuple[str, ...]:
        parts = [self._name(what)]
        while self._took("."):
            parts.append(self._name(what))
        return tuple(parts)

    def _literal(self) -> Literal:
        minus = self._took("-")
        token = self._token
        if token.kind is Kind.NUMBER:
            self._at += 1
            digits = token.value.rstrip("LlSsYyDdFfBb")
            value: int | float = int(digits) if digits.isdigit() else float(digits)
            return -value if minus else value
        if not minus and token.kind is Kind.STRING:
            self._at += 1
            return token.value
        if not minus and token.keyword in _CONSTANTS:
            self._at += 1
            return _CONSTANTS[token.keyword]
        if not minus and token.value in (":", "?"):
            return self._parameter(token)
        raise self._wrong("a text, a number, true, false or null is expected")

    def _argument(self, place: int) -> Literal:
        token = self._token
        if token.kind is Kind.STRING or token.value not in (":", "?") or not self._filled:
            return self._literal()
        self._at += 1 if token.value == "?" else 2
        return self._filled[place]

    def _parameter(self, token: Token) -> Literal:
        """The value of `:name` or `?`."""
        self._at += 1
        name = "?" if token.value == "?" else self._name("the name of a parameter")
        key: str | int = name
        if name == "?":
            key, self._asked = self._asked, self._asked + 1
        args = self._args if self._args is not None else {}
        known: Mapping[Any, Any] = args if isinstance(args, Mapping) else dict(enumerate(args))
        if key not in known:
            message = f"there is no value for the parameter {name}"
            if self._args is None:
                message = f"the parameter {name} has its value from lake.sql(text, args)"
            raise complaint(self._text, token.start, message)
        value = known[key]
        if value is not None and not isinstance(value, str | int | float | bool):
            message = f"the parameter {name} is a text, a number, a truth or None, not"
            raise complaint(self._text, token.start, f"{message} {type(value).__name__}")
        found: Literal = value
        return found

    def _end(self) -> None:
        self._took(";")
        if self._token.kind is not Kind.END:
            raise self._wrong("the statement should end")

    def _wrong(self, message: str) -> InvalidDefinition:
        return complaint(self._text, self._token.start, message)


def _spelled(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


_VERBS = {
    ("SHOW", "INDEXES"): _Reader.show,
    ("SHOW", "INDEX"): _Reader.show,
    ("REFRESH", "INDEX"): _Reader.refresh,
    ("DROP", "INDEX"): _Reader.drop,
    ("CREATE", "INDEX"): _Reader.create,
    ("RUN", "COMPACTION"): _Reader.compaction,
    ("SCHEDULE", "COMPACTION"): _Reader.compaction,
    ("SHOW", "COMPACTION"): _Reader.compaction,
}


def are_names(tokens: list[Token]) -> bool:
    """Whether tokens are names of columns and fields alone: dots and commas are between them."""
    names = [token.kind in (Kind.WORD, Kind.NAME) for token in tokens]
    joined = all(token.keyword in (".", ",") for token in tokens[1::2])
    return all(names[::2]) and joined and len(tokens) % 2 == 1


def joined_names(tokens: list[Token]) -> tuple[str, ...]:
    """Names of columns, and of fields by their paths, between commas."""
    found = [""]
    for token in tokens:
        if token.keyword == ",":
            found.append("")
        else:
            found[-1] += token.value
    return tuple(found)
