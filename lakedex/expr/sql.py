"""The parser of SQL expressions, in Spark's dialect.

`parse_predicate` parses the condition of a WHERE clause; `parse_expression` parses any scalar
expression, such as that of an expression index. Operators have Spark's precedence: OR, AND, NOT,
comparisons with IS / IN / BETWEEN / LIKE, `|` `^` `&`, `+` `-` `||`, `*` `/` `%` DIV, signs, `::`.
Functions keep the name in the text, in lower case, and their arguments.

Everything else (subqueries, aggregates, windows, lambdas, parameters, CASE, several statements) is
an `InvalidDefinition` with its position.

Some calls separate their arguments by keywords:

    EXTRACT (field FROM time)
    TRIM ([BOTH | LEADING | TRAILING] [characters] FROM text)
    SUBSTRING (text FROM start [FOR count])

`date_part('field', time)` is EXTRACT with commas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from lakedex.errors import InvalidDefinition, LakedexError
from lakedex.expr import sql_literal
from lakedex.expr.functions import Arguments, function
from lakedex.expr.functions.strings import SPLIT_ITEM
from lakedex.expr.sql_lexer import Kind, Token, complaint, tokenise
from lakedex.expr.tree import (
    FALSE,
    MAX_DEPTH,
    TRUE,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    StartsWith,
    Unknown,
    all_of,
    any_of,
    check_depth,
    truth,
)
from lakedex.schema.hudi_types import CAST_FUNCTIONS, TYPE_NAMES

ALLOWED = (
    "allowed are columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CAST "
    "and scalar functions"
)
"""The end of every error about an unsupported construct."""

_AGGREGATES = frozenset(
    {"COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "FIRST", "LAST", "FIRST_VALUE", "LAST_VALUE"}
    | {"COLLECT_LIST", "COLLECT_SET", "ANY_VALUE", "STDDEV", "VARIANCE", "EVERY", "PERCENTILE"}
    | {"APPROX_COUNT_DISTINCT", "COUNT_IF", "MAX_BY", "MIN_BY"}
)
_WINDOWS = frozenset({"OVER", "ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD"})
_STATEMENTS = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "FROM", "WHERE"}
    | {"GROUP", "ORDER", "HAVING", "LIMIT", "UNION"}
)

REFUSED_WORDS: dict[str, str] = {
    **dict.fromkeys(_AGGREGATES, "an aggregate"),
    **dict.fromkeys(_WINDOWS, "a window function"),
    **dict.fromkeys(_STATEMENTS, "a statement or a clause"),
    **dict.fromkeys(("?", ":", "@", "$", "{"), "a parameter"),
    "EXISTS": "a subquery",
    "CASE": "CASE",
    ";": "a second statement",
    "*": "'*'",
    "->": "a lambda",
}
"""The description of each rejected word or sign, for the message."""

NOT_NAMES = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "ESCAPE", "DIV", "RLIKE", "ILIKE", "REGEXP"}
    | {"CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "TRY_CAST", "AS", "DISTINCT", "EXISTS"}
    | {"SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "UNION", "JOIN", "ON", "OVER"}
)
"""Keywords that can name a column only in back-quotes."""

_UNITS = {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"}

INTERVAL_UNITS = frozenset(_UNITS | {f"{unit}S" for unit in _UNITS} | {"TO"})
"""The words that may follow the number of an INTERVAL."""


_FIELDS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "dayofmonth"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
}
_SIDES = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_SPOKEN = frozenset(["EXTRACT", "TRIM", "SUBSTRING", "SUBSTR"])
_OR, _AND, _NOT, _COMPARE, _BITS, _ADD, _MULTIPLY, _SIGN = range(1, 9)
_COMPARISONS = {
    "=": Op.EQ,
    "==": Op.EQ,
    "<>": Op.NE,
    "!=": Op.NE,
    "<": Op.LT,
    "<=": Op.LTE,
    ">": Op.GT,
    ">=": Op.GTE,
    "!>": Op.LTE,
    "!<": Op.GTE,
    "<=>": Op.EQ_NULL_SAFE,
}
_INFIX = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    **dict.fromkeys(("IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "NOT"), _COMPARE),
    **dict.fromkeys("|^&", _BITS),
    **dict.fromkeys(("+", "-", "||"), _ADD),
    **dict.fromkeys(("*", "/", "%", "DIV"), _MULTIPLY),
}
_PREFIXES = {"NOT": _NOT, "!": _NOT, "-": _SIGN, "+": _SIGN, "~": _SIGN}
_CONSTANTS = {
    "TRUE": TRUE,
    "FALSE": FALSE,
    "NULL": Literal(None, pa.null()),
}
_BARE_CALLS = {"CURRENT_DATE", "CURRENT_TIMESTAMP"}


class Reader(Protocol):
    """The interface of the parser for calls; its position is at the opening parenthesis."""

    tokens: list[Token]
    place: int

    @property
    def now(self) -> Token:
        """The current token."""

    def take(self) -> Token:
        """Return the current token and move to the next one."""

    def accept(self, *keywords: str) -> bool:
        """Move to the next token if the current one is one of these; return whether it was."""

    def expect(self, keyword: str) -> None:
        """Move past a keyword, which must be the current token."""

    def expression(self, least: int) -> Expr:
        """Parse an expression, up to operators of lower precedence."""


def spoken_call(reader: Reader, name: str, lowest: int) -> Expr | None:
    """Parse a call that is written with FROM; return None, without reading, if it is not.

    Args:
        reader: The parser, at the parenthesis after the name.
        name: The name in upper case.
        lowest: The precedence with which an argument is parsed.

    Raises:
        InvalidDefinition: There is no such field.
    """
    if name not in _SPOKEN or not _has_from(reader):
        return None
    reader.expect("(")
    if name == "EXTRACT":
        field = reader.take().value
        reader.expect("FROM")
        found: Expr = part_of_time(field, reader.expression(lowest))
    elif name == "TRIM":
        found = _trimmed(reader, lowest)
    else:
        arguments = [reader.expression(lowest)]
        reader.expect("FROM")
        arguments.append(reader.expression(lowest))
        if reader.accept("FOR"):
            arguments.append(reader.expression(lowest))
        found = Call("substring", tuple(arguments))
    reader.expect(")")
    return found


def part_of_time(field: str, time: Expr) -> Call:
    """The call for a field of EXTRACT.

    Raises:
        InvalidDefinition: There is no such field, or it is not an integer.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> part_of_time("DOW", Column(("ts",))).function
        'dayofweek'
    """
    function = _FIELDS.get(field.lower())
    if function is None:
        raise InvalidDefinition(f"{field!r} of a time is not known (only {', '.join(_FIELDS)})")
    return Call(function, (time,))


def _trimmed(reader: Reader, lowest: int) -> Expr:
    side = _SIDES.get(reader.now.keyword, "")
    if side:
        reader.take()
    characters = () if reader.now.keyword == "FROM" else (reader.expression(lowest),)
    reader.expect("FROM")
    return Call(side or "trim", (reader.expression(lowest), *characters))


def _has_from(reader: Reader) -> bool:
    """Whether the parentheses that open here contain FROM, outside nested parentheses."""
    depth = 0
    for place in range(reader.place, len(reader.tokens)):
        token = reader.tokens[place]
        depth += {"(": 1, ")": -1}.get(token.keyword, 0)
        if token.kind is Kind.END or not depth:
            return False
        if depth == 1 and token.keyword == "FROM":
            return True
    return False


def membership(child: Expr, items: list[Expr]) -> Expr:
    """`child IN (items)`: an `In` over constants, else a chain of equalities."""
    constants = [item for item in items if isinstance(item, Literal)]
    if len(constants) == len(items):
        return In(child, tuple(constants))
    return any_of([Compare(Op.EQ, child, item) for item in items])


def between_node(child: Expr, low: Expr, high: Expr) -> Expr:
    """`child BETWEEN low AND high`, both ends included."""
    return all_of([Compare(Op.GTE, child, low), Compare(Op.LTE, child, high)])


def like_node(child: Expr, pattern: Expr, escape: str) -> Expr:
    """`child LIKE pattern`; a call if the pattern is not a constant."""
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        return Like(child, pattern.value, escape)
    return Call("like", (child, pattern, Literal(escape, pa.string())))


def ilike_node(child: Expr, pattern: Expr, escape: str) -> Expr:
    """`child ILIKE pattern`, which Spark defines as LIKE of both sides in lower case."""
    lowered = Call("lower", (child,))
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        arguments = Arguments("lower", [pa.scalar(pattern.value)], 1, "UTC")
        return Like(lowered, function("lower").evaluate(arguments)[0].as_py(), escape)
    return like_node(lowered, Call("lower", (pattern,)), escape)


def is_node(child: Expr, word: str, *, negative: bool) -> Expr:
    """`child IS [NOT] NULL | TRUE | FALSE | UNKNOWN`."""
    if word in ("NULL", "UNKNOWN"):
        return IsNotNull(child) if negative else IsNull(child)
    same = Compare(Op.EQ_NULL_SAFE, child, truth(value=word == "TRUE"))
    return Not(same) if negative else same


def call_node(name: str, arguments: list[Expr]) -> Expr:
    """A function call, or the equivalent node."""
    match name, arguments:
        case ("isnull", [child]):
            return IsNull(child)
        case ("isnotnull", [child]):
            return IsNotNull(child)
        case ("startswith", [child, Literal(str() as prefix, _)]):
            return StartsWith(child, prefix)
        case ("trim" | "ltrim" | "rtrim", [characters, child]):
            # Only btrim takes the text first.
            return Call(name, (child, characters))
        case ("date_part" | "datepart", [Literal(str() as field, _), child]):
            return part_of_time(field, child)
        case ("regexp_extract", [child, pattern]):
            return Call(name, (child, pattern, Literal(1, pa.int32())))
        case (_, [child]) if name in CAST_FUNCTIONS:
            return Cast(child, TYPE_NAMES[name.upper()])
        case ("isnull" | "isnotnull" | "startswith", _):
            raise InvalidDefinition(f"wrong number of arguments for {name}")
    return Call(name, tuple(arguments))


def parse_predicate(text: str) -> Expr:
    """Parse a condition.

    Args:
        text: The condition of a WHERE clause.

    Raises:
        InvalidDefinition: The text is not a condition; `position` is the character offset.

    Example:
        >>> parse_predicate("city = 'Oslo' AND fare > 20.5").children[0].op
        <Op.EQ: '='>
    """
    return parse_expression(text)


def parse_expression(text: str) -> Expr:
    """Parse a scalar expression.

    Example:
        >>> parse_expression("date_format(ts, 'yyyy-MM-dd')").function
        'date_format'
    """
    parser = _Parser(text)
    try:
        return parser.whole()
    except RecursionError:
        raise complaint(text, 0, "nested too deeply") from None


class _Parser:
    """Precedence climbing over the tokens, with two to four frames for each level of nesting."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenise(text)
        self.place = 0
        self.depth = 0

    def whole(self) -> Expr:
        expr = self.expression(_OR)
        if self.now.kind is not Kind.END:
            raise self.unexpected()
        check_depth(expr)
        return expr

    # -- tokens ---------------------------------------------------------------------------

    @property
    def now(self) -> Token:
        return self.tokens[self.place]

    @property
    def after(self) -> Token:
        return self.tokens[min(self.place + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.now
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def accept(self, *keywords: str) -> bool:
        if self.now.keyword in keywords:
            self.take()
            return True
        return False

    def expect(self, keyword: str) -> None:
        if not self.accept(keyword):
            raise self.unexpected(f"expected {keyword}")

    def unexpected(self, wanted: str = "") -> InvalidDefinition:
        token = self.now
        if token.keyword in REFUSED_WORDS:
            return self.refuse(token, REFUSED_WORDS[token.keyword])
        found = "the end of the text" if token.kind is Kind.END else repr(token.value[:40])
        tail = f", {wanted}" if wanted else ""
        return complaint(self.text, token.start, f"unexpected {found}{tail}")

    def refuse(self, token: Token, what: str) -> InvalidDefinition:
        return complaint(self.text, token.start, f"{what} cannot be used; {ALLOWED}; found")

    # -- operators ------------------------------------------------------------------------

    def expression(self, least: int) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise complaint(self.text, self.now.start, f"nested deeper than {MAX_DEPTH} levels")
        left = self.prefixed() if self.now.keyword in _PREFIXES else self.operand()
        links = 0
        while (level := _INFIX.get(self.now.keyword, 0)) >= least:
            links += level > _AND
            if links > MAX_DEPTH - self.depth:
                raise complaint(self.text, self.now.start, f"more than {MAX_DEPTH} levels")
            left = self.chain(left, level) if level <= _AND else self.infix(left, level)
        self.depth -= 1
        return left

    def chain(self, first: Expr, level: int) -> Expr:
        keyword = "OR" if level == _OR else "AND"
        terms = [first]
        while self.accept(keyword):
            terms.append(self.expression(level + 1))
        return any_of(terms) if level == _OR else all_of(terms)

    def prefixed(self) -> Expr:
        token = self.take()
        level = _PREFIXES[token.keyword]
        if level == _NOT:
            return Not(self.expression(_NOT))
        if token.keyword == "-" and self.now.kind is Kind.NUMBER:
            return self.cast_suffix(self.number(negative=True))
        child = self.expression(_SIGN)
        names = {"-": "negative", "~": "~"}
        return child if token.keyword == "+" else Call(names[token.keyword], (child,))

    def infix(self, left: Expr, level: int) -> Expr:
        token = self.take()
        if level > _COMPARE:
            return Call(token.keyword.lower(), (left, self.expression(level + 1)))
        if token.keyword in _COMPARISONS:
            right = self.expression(_COMPARE + 1)
            return Compare(_COMPARISONS[token.keyword], left, right)
        if token.keyword == "NOT":
            if self.now.keyword not in ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP"):
                raise self.unexpected("expected IN, BETWEEN or LIKE after NOT")
            return Not(self.test(left, self.take()))
        return self.test(left, token)

    def test(self, left: Expr, token: Token) -> Expr:
        match token.keyword:
            case "IS":
                return self.is_test(left)
            case "IN":
                return self.member_of(left)
            case "BETWEEN":
                low = self.expression(_COMPARE + 1)
                self.expect("AND")
                return between_node(left, low, self.expression(_COMPARE + 1))
        if self.now.keyword in ("ANY", "ALL", "SOME") and self.after.keyword == "(":
            raise self.refuse(self.now, f"LIKE {self.now.keyword}")
        pattern = self.expression(_COMPARE + 1)
        if token.keyword in ("RLIKE", "REGEXP"):
            return Call("rlike", (left, pattern))
        like = like_node if token.keyword == "LIKE" else ilike_node
        return like(left, pattern, self.escape() if self.accept("ESCAPE") else "\\")

    def member_of(self, left: Expr) -> Expr:
        if self.after.keyword == ")":
            raise complaint(self.text, self.now.start, "IN needs at least one value")
        return membership(left, self.parenthesised())

    def escape(self) -> str:
        token = self.take()
        if token.kind is not Kind.STRING or len(token.value) != 1:
            raise complaint(self.text, token.start, "ESCAPE takes a string of one character")
        return token.value

    def is_test(self, left: Expr) -> Expr:
        negative = self.accept("NOT")
        word = self.now
        if self.accept("DISTINCT"):
            self.expect("FROM")
            same: Expr = Compare(Op.EQ_NULL_SAFE, left, self.expression(_COMPARE + 1))
            return same if negative else Not(same)
        if not self.accept("NULL", "TRUE", "FALSE", "UNKNOWN"):
            raise self.unexpected("expected NULL, TRUE, FALSE or DISTINCT FROM after IS")
        return is_node(left, word.keyword, negative=negative)

    # -- operands -------------------------------------------------------------------------

    def operand(self) -> Expr:
        token = self.now
        match token.kind:
            case Kind.NUMBER:
                expr: Expr = self.number()
            case Kind.STRING:
                expr = Literal(self.string(), pa.string())
            case Kind.BINARY:
                expr = self.constant(sql_literal.binary, self.take())
            case Kind.WORD | Kind.NAME:
                expr = self.named()
            case _ if self.accept("("):
                if self.now.keyword in ("SELECT", "WITH"):
                    raise self.refuse(self.now, "a subquery")
                expr = self.expression(_OR)
                self.expect(")")
            case _:
                raise self.unexpected("expected a column, a constant or a function")
        return self.cast_suffix(expr)

    def cast_suffix(self, expr: Expr) -> Expr:
        while self.accept("::"):
            expr = Cast(expr, self.type())
        if self.now.keyword == "[" and isinstance(expr, Call) and expr.function == "split":
            return self.part_of_split(expr)
        if self.now.keyword in ("[", "->", "=>", ":"):
            raise self.refuse(self.now, f"'{self.now.value}'")
        return expr

    def part_of_split(self, split: Call) -> Expr:
        self.expect("[")
        place = self.number()
        self.expect("]")
        return Call(SPLIT_ITEM, (*split.arguments, place))

    def number(self, *, negative: bool = False) -> Literal:
        token = self.take()
        try:
            return sql_literal.number(token.value, negative=negative)
        except InvalidDefinition as error:
            raise complaint(self.text, token.start, str(error)) from None

    def string(self) -> str:
        parts: list[str] = []
        while self.now.kind is Kind.STRING:
            parts.append(self.take().value)
        return "".join(parts)

    def named(self) -> Expr:
        token = self.take()
        if token.kind is Kind.WORD:
            special = self.special(token)
            if special is not None:
                return special
            if self.now.keyword == "(":
                return self.call(token)
            if token.keyword in NOT_NAMES:
                self.place -= 1
                raise self.unexpected("write column names that are keywords in back-quotes")
        path = [token.value]
        while self.accept("."):
            if self.now.kind not in (Kind.WORD, Kind.NAME):
                raise self.unexpected("expected a field name")
            path.append(self.take().value)
        if self.now.keyword == "(":
            raise self.refuse(self.now, "a function with a qualified name")
        return Column(tuple(path))

    def special(self, token: Token) -> Expr | None:
        keyword = token.keyword
        if keyword in _CONSTANTS:
            return _CONSTANTS[keyword]
        if keyword in _BARE_CALLS and self.now.keyword != "(":
            return Call(token.value.lower(), ())
        if self.now.kind is Kind.STRING and keyword in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return self.constant(lambda text: sql_literal.typed_string(keyword, text), self.take())
        if keyword == "INTERVAL" and self.now.kind in (Kind.STRING, Kind.NUMBER):
            return self.interval()
        if keyword in ("CAST", "TRY_CAST") and self.accept("("):
            child = self.expression(_OR)
            self.expect("AS")
            cast = Cast(child, self.type())
            self.expect(")")
            return cast
        return None

    def constant(self, read: Callable[[str], Expr], token: Token) -> Expr:
        try:
            return read(token.value)
        except LakedexError as error:
            raise complaint(self.text, token.start, str(error)) from None

    def interval(self) -> Expr:
        while self.now.kind in (Kind.STRING, Kind.NUMBER) or self.now.keyword in INTERVAL_UNITS:
            self.take()
        return Unknown("interval arithmetic")

    def call(self, token: Token) -> Expr:
        name = token.value.lower()
        if token.keyword in REFUSED_WORDS or token.keyword in NOT_NAMES:
            raise self.refuse(token, REFUSED_WORDS.get(token.keyword, f"{token.keyword}(...)"))
        try:
            spoken = spoken_call(self, token.keyword, _OR)
            return spoken or call_node(name, self.arguments())
        except InvalidDefinition as error:
            if error.position is not None:
                raise
            raise complaint(self.text, token.start, str(error)) from None

    def arguments(self) -> list[Expr]:
        found = self.parenthesised()
        if self.now.keyword in ("OVER", "FILTER"):
            raise self.refuse(self.now, "a window function")
        return found

    def parenthesised(self) -> list[Expr]:
        self.expect("(")
        if self.accept(")"):
            return []
        if self.now.keyword in ("SELECT", "WITH"):
            raise self.refuse(self.now, "a subquery")
        items = [self.expression(_OR)]
        while self.accept(","):
            items.append(self.expression(_OR))
        self.expect(")")
        return items

    def type(self) -> pa.DataType:
        token = self.take()
        name = token.keyword
        if name in ("VARCHAR", "CHAR", "CHARACTER"):
            self.digits()
            return pa.string()
        if name not in TYPE_NAMES:
            raise complaint(self.text, token.start, f"unknown type {token.value!r}")
        if not pa.types.is_decimal(TYPE_NAMES[name]) or self.now.keyword != "(":
            return TYPE_NAMES[name]
        precision, scale = (*self.digits(), 0, 0)[:2]
        if not 1 <= precision <= sql_literal.MAX_PRECISION or scale > precision:
            raise complaint(self.text, token.start, "no such decimal type")
        return pa.decimal128(precision, scale)

    def digits(self) -> list[int]:
        numbers: list[int] = []
        self.expect("(")
        while not self.accept(")"):
            if numbers:
                self.expect(",")
            token = self.take()
            if token.kind is not Kind.NUMBER or not token.value.isdecimal() or len(numbers) > 1:
                raise complaint(self.text, token.start, "expected a whole number")
            numbers.append(int(token.value[:10]))
        return numbers
