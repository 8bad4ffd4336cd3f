"""The grammar of statements that Spark's parser does not take; needs no session."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidDefinition
from lakedex.spark.sql.extra_grammar import parse_extra


def test_statements_are_read():
    assert parse_extra("show indexes from `a b`.t;").table == ("a b", "t")
    assert parse_extra("SHOW INDEXES FROM TABLE db.t").table == ("db", "t")
    assert parse_extra("SHOW INDEXES IN table").table == ("table",)
    assert parse_extra("REFRESH INDEX i ON TABLE t").name == "i"
    made = parse_extra(
        "CREATE INDEX i ON t USING bloom_filters (upper(name)) "
        "OPTIONS ('a.b' = 'x', lakedex.covering = true, n 3);"
    )
    assert made.settings == {"a.b": "x", "lakedex.covering": "true", "n": "3"}
    assert (made.expression.strip(), made.columns) == ("upper(name)", ())
    made = parse_extra("CREATE INDEX i ON t (n div 7)")
    assert (made.expression.strip(), made.columns) == ("n div 7", ())
    made = parse_extra("CREATE INDEX i ON t (home.`a-b`, n) (x = 1)")
    assert (made.expression, made.columns) == ("", ("home.a-b", "n"))
    made = parse_extra("CREATE INDEX i ON t USING column_stats(last_name) (expr='upper')")
    assert (made.columns, made.settings) == (("last_name",), {"expr": "upper"})
    dropped = parse_extra("DROP INDEX IF EXISTS i")
    assert (dropped.name, dropped.table, dropped.if_exists) == ("i", (), True)
    for text in ("SHOW INDEXES IN t", "REFRESH INDEX i ON t", "CREATE INDEX i ON t (upper(n))"):
        assert parse_extra(text).position == text.index(" t") + 1
    call = parse_extra("CALL system.show_commits('t', -1, 2.5, TRUE, x => NULL) -- so")
    assert call.name == "system.show_commits"
    assert call.arguments == ("t", -1, 2.5, True)
    assert call.named == {"x": None}
    assert parse_extra("CALL p()").arguments == parse_extra("CALL p;").arguments == ()
    asked = parse_extra("SCHEDULE COMPACTION ON db.`a b` AT 20260102030405678")
    assert (asked.verb, asked.name, asked.position) == ("call", "run_compaction", 23)
    told = {"table": "db.`a b`", "op": "schedule", "timestamp": 20260102030405678}
    assert asked.named == told
    asked = parse_extra("show compaction on '/data/t' limit 3")
    assert (asked.name, asked.named) == ("show_compaction", {"path": "/data/t", "limit": 3})
    for other in ("SELECT 1", "SHOW TABLES", "DROP TABLE t", "", "'never closed"):
        assert parse_extra(other) is None


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("SHOW INDEXES FROM", 17, "the name of a table is expected"),
        ("SHOW INDEXES FROM t x", 20, "the statement should end"),
        ("DROP INDEX IF i", 14, "EXISTS is expected"),
        ("CREATE INDEX i ON t (name)", 21, "columns of an index"),
        ("CREATE INDEX i ON t (name) USING bloom_filters", 27, "stand before its columns"),
        ("CREATE INDEX i ON t (upper(name)) USING bitmap", 34, "stand before its columns"),
        ("CREATE INDEX i ON t (upper(name)) OPTIONS (a = b)", 47, "a text, a number"),
        ("CREATE INDEX i ON t (upper(name)) OPTIONS (a = 1, a = 2)", 50, "given twice"),
        ("CREATE INDEX i ON t (upper(name)) x", 34, "the statement should end"),
        ("REFRESH INDEX i t", 16, "ON is expected"),
        ("CALL p('a' 'b')", 11, "a comma or a closing parenthesis"),
        ("CALL p(x => 1, 2)", 15, "after one with a name"),
        ("CALL p(lower('a'))", 7, "a text, a number, true, false or null"),
        ("CALL p(", 7, "a text, a number"),
        ("RUN COMPACTION t", 15, "ON is expected"),
        ("SHOW COMPACTION ON t AT 3", 21, "the statement should end"),
    ],
)
def test_a_complaint_points_at_the_place(text, position, message):
    with pytest.raises(InvalidDefinition, match=message) as caught:
        parse_extra(text)
    assert caught.value.position == position
