"""Regular expressions of Java in the spelling of RE2: what is taken means the same to both."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import UnsupportedFeature
from lakedex.expr.java_regex import to_re2

PARTS = (
    "a",
    "b",
    "[ab]",
    "[^a]",
    r"\d",
    r"\w",
    "-",
    r"\.",
    "(?:a|ab)",
    "(?:b|-)",
    "(a|b-)",
    "[a-c]",
)
SIGNS = ("", "", "*", "+", "?", "*?", "+?", "{1,2}", "{2}", "??")


@st.composite
def patterns(draw) -> str:
    """Patterns whose meaning Python shares with Java, letter for letter."""
    pieces = draw(
        st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(SIGNS)), min_size=1, max_size=5)
    )
    text = "".join(part + sign for part, sign in pieces)
    start, end = draw(st.sampled_from(("", "^"))), draw(st.sampled_from(("", "$")))
    other = draw(st.sampled_from(("", "|b", "|(c)")))
    return f"{start}{text}{end}{other}"


@given(pattern=patterns(), texts=st.lists(st.text("ab-.1é", max_size=8), min_size=1, max_size=8))
def test_the_leftmost_match_is_that_of_a_backtracking_engine(pattern, texts):
    found = to_re2(pattern, lambda _: "(?:")
    matches = pc.extract_regex(pa.array(texts), pattern=f"(?P<whole>{found.text})")
    expected = [re.search(pattern, text, re.ASCII) for text in texts]
    ours = [None if match is None else match["whole"] for match in matches.to_pylist()]
    assert ours == [None if match is None else match[0] for match in expected]
    assert found.groups == re.compile(pattern).groups
    if not found.may_be_empty:
        assert all(match is None or match[0] for match in expected)


def test_places_and_classes_are_those_of_java():
    # Java knows more line ends than RE2, and the vertical tab is a blank to it.
    texts = pa.array(["a\rb", "a\u2028b", "a\x0bb", "a b", "axb"])
    for pattern, expected in (
        ("a.b", [False, False, True, True, True]),
        (r"a\sb", [True, False, True, True, False]),
        (r"a\Sb", [False, True, False, False, True]),
        (r"a[\s]b", [True, False, True, True, False]),
    ):
        found = pc.match_substring_regex(texts, pattern=to_re2(pattern).text)
        assert found.to_pylist() == expected, pattern
    assert to_re2("a$").asks_for_end
    assert to_re2("(a)(?:(b)(c))+").repeated == {2, 3}


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(?i)a", r"begins with '\(\?'"),
        ("a(?=b)", r"begins with '\(\?'"),
        ("(?<name>a)", r"begins with '\(\?'"),
        (r"(a)\1", r"'\\1'"),
        (r"\bword", r"'\\b'"),
        (r"\p{Lu}", r"'\\p'"),
        (r"\Qa.b\E", r"'\\Q'"),
        (r"\u0041", r"'\\u'"),
        ("a++", "possessive"),
        ("a*+", "possessive"),
        ("(a*)*", "may be empty"),
        ("(?:|a)+", "may be empty"),
        ("^*", "may be empty"),
        ("a{2}{3}", "repetition of a repetition"),
        ("a{,3}", "no number"),
        ("a{3,2}", "cannot be"),
        ("a{0}", "cannot be"),
        ("a{999}", "more than"),
        ("[a-c&&b]", "'&' in brackets"),
        ("[[ab]c]", r"'\[' in brackets"),
        ("[c-a]", "a range"),
        ("[]", "around nothing"),
        ("[a-c-e]", "in the middle of brackets"),
        ("[ab", "an end"),
        ("(ab", "an end"),
        ("ab)", "without its beginning"),
        ("*a", "nothing before it"),
        ("a]", "nothing before it"),
        ("a\\", "an end"),
        ("(" * 40 + "a" + ")" * 40, "nested that deeply"),
    ],
)
def test_what_may_mean_something_else_is_named(pattern, what):
    with pytest.raises(UnsupportedFeature, match=what):
        to_re2(pattern)
