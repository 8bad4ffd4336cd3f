"""Every procedure of Hudi 1.2 is there with the same parameters and columns, or refused by name."""

from __future__ import annotations

from typing import Any

from lakedex.spark.sql.procedures.registry import PROCEDURES, REFUSED

OURS_TOO = {"path", "options", "showArchived", "skip_locking"}
"""Parameters that we take beside those of Hudi, always after them."""


def test_parameters_defaults_and_columns_are_those_of_hudi(spark):
    known = spark._jvm.org.apache.spark.sql.hudi.command.procedures.HoodieProcedures
    pairs = known.procedures().iterator()
    names = []
    while pairs.hasNext():
        names.append(str(pairs.next()._1()))
    assert len(names) > 60
    assert {*names} <= {*PROCEDURES, *REFUSED}
    for name in sorted({*names} & {*PROCEDURES}):
        theirs, ours = known.newBuilder(name).build(), PROCEDURES[name]
        parameters = sorted(theirs.parameters(), key=lambda each: each.index())
        expected = [str(each.name()) for each in parameters]
        given = list(ours.parameters)
        assert given[: len(expected)] == expected, name
        assert {*given[len(expected) :]} <= OURS_TOO, name
        for each in parameters:
            wanted = _text(each.default())
            default = ours.parameters[str(each.name())]
            assert _text(None if isinstance(default, type) else default) == wanted, (name, each)
        columns = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ours.columns)
        assert _columns(columns) == _columns(theirs.outputType()), name


def _columns(struct: Any) -> list[tuple[str, str]]:
    return [(str(each.name()), str(each.dataType().simpleString())) for each in struct.fields()]


def _text(value: object) -> str:
    """A default as text; Scala's nothing, an empty text and None are all the same."""
    text = "" if value is None else str(value).lower()
    return "" if text == "none" else text
