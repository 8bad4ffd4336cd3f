"""Partition paths in every style, believed only where they determine the value."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.keys import PartitionLayout, escape_path_value, unescape_path_value

TYPES = {"a": pa.string(), "n": pa.int32(), "d": pa.date32(), "f": pa.float64(), "b": pa.bool_()}


def value(layout: PartitionLayout, path: str, name: str):
    found = layout.values(path, TYPES)[name]
    return (found.known, found.value)


@pytest.mark.parametrize(
    ("layout", "path", "name", "expected"),
    [
        (PartitionLayout(("a",), hive_style=True), "a=x", "a", (True, "x")),
        (PartitionLayout(("a",)), "x", "a", (True, "x")),
        (PartitionLayout(("a",)), "x/y", "a", (True, "x/y")),
        (PartitionLayout(("a", "n")), "x/7", "n", (True, 7)),
        (PartitionLayout(("a", "n")), "x/y/7", "n", (False, None)),
        (PartitionLayout(("n",)), "007", "n", (False, None)),
        (PartitionLayout(("d",)), "2024-02-29", "d", (True, date(2024, 2, 29))),
        (PartitionLayout(("d",)), "2024/02/29", "d", (False, None)),
        (PartitionLayout(("d",)), "19000", "d", (False, None)),
        (PartitionLayout(("f",)), "1.5", "f", (False, None)),
        (PartitionLayout(("b",)), "true", "b", (True, True)),
        (PartitionLayout(("a",)), "__HIVE_DEFAULT_PARTITION__", "a", (False, None)),
        (PartitionLayout(("a",)), "default", "a", (False, None)),
        (PartitionLayout(("a",)), "a=x", "a", (False, None)),
        (PartitionLayout(("a",), hive_style=True), "x", "a", (False, None)),
        (
            PartitionLayout(("a",), hive_style=True, url_encoded=True),
            "a=x y%2Fz%3D1%25",
            "a",
            (True, "x y/z=1%"),
        ),
        (PartitionLayout(("a",), derived_fields=frozenset("a")), "2024", "a", (False, None)),
    ],
)
def test_a_path_tells_its_value_or_says_that_it_does_not(layout, path, name, expected):
    assert value(layout, path, name) == expected


@given(st.text(min_size=1))
def test_escaped_values_come_back_and_hold_no_separator(text):
    escaped = escape_path_value(text)
    assert unescape_path_value(escaped) == text
    assert "/" not in escaped
    assert "-" not in escape_path_value(text, for_file_name=True)
