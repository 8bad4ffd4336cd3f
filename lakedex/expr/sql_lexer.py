"""Splits SQL text into tokens, by Spark's lexical rules.

Strings are in single or double quotes with backslash escapes, names in back-quotes, `X'..'` is
binary and `R'..'` a string without escapes. Two quotes inside a string mean one quote, as in
standard SQL and Spark 4. Comments are dropped. Every token has its position in the text, for error
messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from lakedex.errors import InvalidDefinition

MAX_TEXT = 1 << 20
"""Longer texts are rejected."""
MAX_TOKENS = 1 << 16
"""Texts with more tokens are rejected, because they would take long to parse."""


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"
    NAME = "back-quoted name"
    STRING = "string"
    BINARY = "binary"
    NUMBER = "number"
    SIGN = "sign"
    END = "end of text"


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `value` is decoded for names and strings, the text itself otherwise."""

    kind: Kind
    value: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """The word in upper case, or the sign; empty for other tokens."""
        return self.value.upper() if self.kind in (Kind.WORD, Kind.SIGN) else ""


def tokenise(text: str) -> list[Token]:
    """Split a text into tokens, ending with an `END` token.

    Example:
        >>> [token.value for token in tokenise("a >= 'it''s' -- why")]
        ['a', '>=', "it's", '']
    """
    if len(text) > MAX_TEXT:
        raise InvalidDefinition(f"the text has {len(text)} characters; the limit is {MAX_TEXT}")
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            raise _cannot_read(text, place)
        group = found.lastgroup
        if len(tokens) >= MAX_TOKENS:
            raise complaint(text, place, f"more than {MAX_TOKENS} words and signs")
        if group != "blank":
            tokens.append(_token(group, found))
        place = found.end()
    tokens.append(Token(Kind.END, "", len(text), len(text)))
    return tokens


def complaint(text: str, position: int, message: str) -> InvalidDefinition:
    """An error that shows the part of the text around `position`, marked with `>>>`."""
    start, end = max(0, position - 40), min(len(text), position + 40)
    before = ("..." if start else "") + text[start:position]
    after = text[position:end] + ("..." if end < len(text) else "")
    return InvalidDefinition(
        f"{message} at character {position}: {before}>>>{after}", position=position
    )


_NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|bd|[LSYDFlsydf])?(?!\w)"
_TOKEN = re.compile(
    r"(?P<blank>\s+|--[^\n]*|/\*.*?\*/)"
    rf"|(?P<number>{_NUMBER})"
    r"|(?P<binary>[xX](?:'[^']*'|\"[^\"]*\"))"
    r"|(?P<raw>[rR](?:'[^']*'|\"[^\"]*\"))"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*+'|\"(?:[^\"\\]|\\.|\"\")*+\")"
    r"|(?P<name>`(?:[^`]|``)*+`)"
    r"|(?P<word>\w+)"
    r"|(?P<sign><=>|<=|>=|<>|!=|!<|!>|==|\|\||::|->|=>|/(?!\*)|[-=<>+*%()\[\].,!~&|^:;?@{}$#])",
    re.DOTALL,
)
_KINDS = {
    "number": Kind.NUMBER,
    "binary": Kind.BINARY,
    "raw": Kind.STRING,
    "string": Kind.STRING,
    "name": Kind.NAME,
    "word": Kind.WORD,
    "sign": Kind.SIGN,
}
_ESCAPE = re.compile(
    r"\\(?:u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<o>[01][0-7][0-7])|(?P<c>.))"
    r"|(?P<q>''|\"\")",
    re.DOTALL,
)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_KEPT = {"%": r"\%", "_": r"\_"}


def _token(group: str, found: re.Match[str]) -> Token:
    value = found.group()
    if group == "name":
        value = value[1:-1].replace("``", "`")
    elif group == "raw" or group == "binary":
        value = value[2:-1]
    elif group == "string":
        value = _unescape(found)
    return Token(_KINDS[group], value, found.start(), found.end())


def _unescape(found: re.Match[str]) -> str:
    quote, body = found.group()[0], found.group()[1:-1]
    if "\\" not in body and quote not in body:
        return body

    def replace(part: re.Match[str]) -> str:
        if part["q"] is not None:
            return quote if part["q"][0] == quote else part["q"]
        if part["o"] is not None:
            return chr(int(part["o"], 8))
        code = part["u"] or part["U"]
        if code is None:
            return _KEPT.get(part["c"], _CONTROLS.get(part["c"], part["c"]))
        if int(code, 16) > 0x10FFFF:
            raise complaint(found.string, found.start(), f"\\U{code} is not a character")
        return chr(int(code, 16))

    value = _ESCAPE.sub(replace, body)
    try:
        # Two escapes may form one character as a surrogate pair; a lone surrogate is invalid.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise complaint(found.string, found.start(), "a lone surrogate is invalid") from None


def _cannot_read(text: str, place: int) -> InvalidDefinition:
    opening = text[place : place + 2]
    if opening[:1] in ("'", '"', "`") or opening[:1].lower() in ("r", "x"):
        return complaint(text, place, "a quote that is never closed")
    if opening == "/*":
        return complaint(text, place, "a comment that is never closed")
    return complaint(text, place, f"a character that has no meaning here, {opening[:1]!r}")
