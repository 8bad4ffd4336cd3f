"""Java Properties text: what it means, and that our own text means what we wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.config.properties_text import (
    decode_properties,
    format_properties,
    parse_properties,
)
from lakedex.errors import CorruptFile, LakedexError

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1", {"a": "1"}),
        ("  a = b = c ", {"a": "b = c "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("#a=1\n!b=2\n\n  # c=3\nd=4", {"d": "4"}),
        ("a=1\\\n    2\\\n3", {"a": "123"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\\n#2", {"a": "1#2"}),
        (r"a\ b\=c\:d=e\:\=\#\!", {"a b=c:d": "e:=#!"}),
        (r"a=\t\n\r\f\q", {"a": "\t\n\r\fq"}),
        (r"a=\u00fc\uD83D\uDE00", {"a": "ü😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
        ("\\\n", {}),
    ],
)
def test_text_is_read_as_java_reads_it(text, expected):
    assert parse_properties(text) == expected


@given(st.dictionaries(ANY_TEXT, ANY_TEXT), ANY_TEXT)
def test_any_properties_survive_a_round_trip(props, comment):
    text = format_properties(props, comment=comment)
    assert text.isascii()
    assert parse_properties(text) == props


@given(st.text())
def test_any_text_gives_properties_or_our_error(text):
    try:
        props = parse_properties(text)
    except LakedexError:
        return
    assert all(isinstance(part, str) for item in props.items() for part in item)


@given(st.binary())
def test_any_bytes_decode_to_text(data):
    assert isinstance(decode_properties(data), str)


def test_half_an_escape_is_named_with_its_place():
    with pytest.raises(CorruptFile, match=r"hex digits") as caught:
        parse_properties("a=1\nb=xy\\u12", path="t/hoodie.properties")
    assert caught.value.path == "t/hoodie.properties"
    assert caught.value.offset == 8


def test_latin1_and_utf8_files_both_decode():
    assert decode_properties("a=ü".encode("latin-1")) == "a=ü"
    assert decode_properties("a=ü".encode()) == "a=ü"


def test_schema_is_escaped_as_hudi_escapes_it():
    assert format_properties({"s": '{"type":"record"}'}) == 's={"type"\\:"record"}\n'


def test_long_texts_are_read_in_linear_time():
    text = "a=" + "\\\n" * 200_000 + "x" + "\\\\" * 200_000
    assert parse_properties(text) == {"a": "x" + "\\" * 200_000}
