"""What stands between the parentheses of a CREATE INDEX, as tokens."""

from __future__ import annotations

from lakedex.expr.sql_lexer import Kind, Token


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
