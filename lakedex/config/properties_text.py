r"""Java Properties text, as `hoodie.properties` is written.

A logical line is `key<separator>value`. The separator is the first unescaped `=`, `:` or blank,
with blanks around it ignored. A line whose first visible character is `#` or `!` is a comment,
a line that ends in an odd number of backslashes goes on in the next one, whose leading blanks
are dropped. `\t \n \r \f` and `\uXXXX` (one UTF-16 unit) are escapes; before any other
character a backslash only takes its special meaning away. The last of several equal keys wins.

Hudi writes the text as ASCII; files made by hand may be UTF-8 or Latin-1.

The checksum in `hoodie.properties` is the CRC-32, as an unsigned decimal, of the UTF-8 text
`<database>.<table name>`; a missing database is the empty string. It covers no other property: it
only distinguishes a torn file from a whole one, so lakedex writes it last.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping

from lakedex.config import keys
from lakedex.errors import CorruptFile

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES_OF_CONTROLS = {value: name for name, value in _NAMED_ESCAPES.items()}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_HALF_ESCAPE_LENGTH = 4


def parse_properties(text: str, *, path: str = "<properties>") -> dict[str, str]:
    r"""The keys and values of a Java Properties text, in the order of the text.

    Example:
        >>> parse_properties("#comment\na=1\nschema={\"type\"\\:\"record\"}")
        {'a': '1', 'schema': '{"type":"record"}'}

    Raises:
        CorruptFile: an escape `\u` is not followed by four hex digits.
    """
    props: dict[str, str] = {}
    for offset, line in _logical_lines(text):
        key_end, value_start = _split(line)
        key = _unescape(line[:key_end], path=path, offset=offset)
        props[key] = _unescape(line[value_start:], path=path, offset=offset + value_start)
    return props


def format_properties(props: Mapping[str, str], *, comment: str = "") -> str:
    r"""Java Properties text that reads back as `props`, after the lines of `comment`.

    Example:
        >>> format_properties({"a b": "x:y"}, comment="Updated at noon")
        '#Updated at noon\na\\ b=x\\:y\n'
    """
    lines = [f"#{line}" for line in _LINE_END.split(_ascii(comment))] if comment else []
    lines += [
        f"{_escape(key, blanks_anywhere=True)}={_escape(value, blanks_anywhere=False)}"
        for key, value in props.items()
    ]
    return "".join(f"{line}\n" for line in lines)


def decode_properties(data: bytes) -> str:
    """The text of a properties file: UTF-8 where it is valid, else Latin-1.

    Example:
        >>> decode_properties(bytes([0x61, 0x3D, 0xFC]))
        'a=ü'
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Offset and text of every logical line that is neither blank nor a comment."""
    parts: list[str] = []
    start = offset = 0
    for line, length in _natural_lines(text):
        stripped = line.lstrip(_BLANKS)
        if not parts:
            start = offset + len(line) - len(stripped)
        offset += length
        if not parts and (not stripped or stripped[0] in "#!"):
            continue
        trailing = len(stripped) - len(stripped.rstrip("\\"))
        if trailing % 2:
            parts.append(stripped[:-1])
            continue
        if stripped or any(parts):
            yield start, "".join([*parts, stripped])
        parts = []
    if any(parts):
        yield start, "".join(parts)


def _natural_lines(text: str) -> Iterator[tuple[str, int]]:
    """Every line without its end, and its length with it."""
    at = 0
    for match in _LINE_END.finditer(text):
        yield text[at : match.start()], match.end() - at
        at = match.end()
    yield text[at:], len(text) - at


def _split(line: str) -> tuple[int, int]:
    """Where the key of a logical line ends and where its value starts."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value = end
    while value < len(line) and line[value] in _BLANKS:
        value += 1
    if value < len(line) and line[value] in "=:":
        value += 1
    while value < len(line) and line[value] in _BLANKS:
        value += 1
    return end, value


def _unescape(text: str, *, path: str, offset: int) -> str:
    """The text with its escapes resolved and surrogate halves joined."""
    if "\\" not in text:
        return text

    def resolve(match: re.Match[str]) -> str:
        unit, plain = match.groups()
        if unit is not None:
            return chr(int(unit, 16))
        if plain == "u":
            raise CorruptFile(
                path,
                offset + match.start(),
                expected="four hex digits after \\u",
                actual=repr(text[match.end() : match.end() + _HALF_ESCAPE_LENGTH]),
            )
        return _NAMED_ESCAPES.get(plain, plain)

    resolved = _ESCAPE.sub(resolve, text)
    if not any("\ud800" <= char <= "\udfff" for char in resolved):
        return resolved
    return resolved.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escape(text: str, *, blanks_anywhere: bool) -> str:
    """The text with every character escaped that would not read back as itself."""
    body = text.replace("\\", "\\\\")
    for char in "=:#!":
        body = body.replace(char, f"\\{char}")
    for char, name in _NAMES_OF_CONTROLS.items():
        body = body.replace(char, f"\\{name}")
    if blanks_anywhere:
        body = body.replace(" ", "\\ ")
    elif body.startswith(" "):
        body = f"\\{body}"
    return _ascii(body)


def _ascii(text: str) -> str:
    r"""The text with everything but printable ASCII and line ends as `\uXXXX`."""
    if text.isascii() and text.isprintable():
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        chr(code) if 0x20 <= code <= 0x7E or code in (0x0A, 0x0D) else f"\\u{code:04X}"
        for code in codes
    )


_WITH_ONE = ("8", "9")
"""Table versions that all of their writers give a checksum."""


def table_checksum(name: str, database: str | None = None) -> int:
    """The checksum of a table of this name.

    Example:
        >>> table_checksum("trips", "default")
        2200697520
        >>> table_checksum("trips_metadata")
        1249152950
    """
    text = f"{database or ''}.{name}"
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def with_checksum(props: Mapping[str, str]) -> dict[str, str]:
    """The same properties, with the checksum at their end: a file that is cut short has none.

    Example:
        >>> [*with_checksum({"hoodie.table.checksum": "1", "hoodie.table.name": "t"})]
        ['hoodie.table.name', 'hoodie.table.checksum']
    """
    made = {key: value for key, value in props.items() if key != keys.TABLE_CHECKSUM}
    name, database = props.get(keys.TABLE_NAME, ""), props.get(keys.DATABASE_NAME)
    return made | {keys.TABLE_CHECKSUM: str(table_checksum(name, database))}


def checksum_matches(props: Mapping[str, str]) -> bool:
    """Whether the stored checksum is right; of an old table a file without one is taken as whole.

    Example:
        >>> checksum_matches({"hoodie.table.name": "t", "hoodie.table.checksum": "1"})
        False
    """
    stored = props.get(keys.TABLE_CHECKSUM, "").strip()
    if not stored:
        return props.get(keys.TABLE_VERSION, "").strip() not in _WITH_ONE
    name, database = props.get(keys.TABLE_NAME, ""), props.get(keys.DATABASE_NAME)
    return stored == str(table_checksum(name, database))
