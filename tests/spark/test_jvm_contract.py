"""The contract of Java and Python: Java gets the values of Python, and a stale JVM is refused."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from importlib.resources import files

import pytest

import lakedex
from lakedex.errors import UnsupportedFeature
from lakedex.spark import serving
from lakedex.spark.jvm_classes import class_sources, compile_classes
from lakedex.spark.jvm_contract import CONTRACT, SEPARATOR, Call, Kind
from lakedex.spark.sql.statements import STATEMENT_KINDS

CALLS_BY_NAME = {call.name: call for call in CONTRACT.calls}


def with_constant(name: str, value: str | int):
    return replace(CONTRACT, constants={**CONTRACT.constants, name: value})


def with_call(call: Call):
    calls = {**CALLS_BY_NAME, call.name: call}
    return replace(CONTRACT, calls=tuple(calls.values()))


def compiled(spark, contract):
    """The classes of a contract, beside those of the session."""
    sources = class_sources(spark, contract)
    kept = {
        name: source.replace("package lakedex.jvm;", "package lakedex.jvm.test;")
        for name, source in sources.items()
        if name != "LakedexDefaultSource"
    }
    return compile_classes(spark.sparkContext._jvm, kept)


def test_java_is_compiled_with_the_constants_of_python(spark, lake):
    classes = compiled(spark, with_constant("REFUSED", "?"))
    theirs = classes.loader.loadClass("lakedex.jvm.test.Contract")
    assert theirs.getField("REFUSED").get(None) == "?"
    ours = spark.sparkContext._jvm.lakedex.jvm.Contract
    for name, value in CONTRACT.constants.items():
        assert getattr(ours, name) == value, name


def test_a_filter_text_has_the_names_of_python(spark, lake):
    classes = compiled(spark, with_constant("FILTER_ROOTS", "conjuncts"))
    jvm = spark.sparkContext._jvm
    text = classes.instance("lakedex.jvm.test.FilterText").describe(jvm.PythonUtils.toSeq([]))
    assert text == '{"nodes":[],"conjuncts":[],"legacy_times":false}'


def test_a_call_with_another_parameter_does_not_compile(spark, lake):
    pin = CALLS_BY_NAME["pin"]
    changed = replace(pin, parameters={**pin.parameters, "as_of": Kind.TEXT})
    with pytest.raises(UnsupportedFeature, match=f"PinRule on Spark {spark.version}.*pin"):
        compiled(spark, with_call(changed))


def test_an_answer_without_a_line_that_java_reads_does_not_compile(spark, lake):
    pin = CALLS_BY_NAME["pin"]
    with pytest.raises(UnsupportedFeature, match=r"PinRule on Spark .*PIN_READERS"):
        compiled(spark, with_call(replace(pin, answer=pin.answer[:-1])))


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (with_constant("REFUSED", "?"), r"`REFUSED = '!'` there, `REFUSED = '\?'` here"),
        (
            with_call(Call("check_files", {"pin": Kind.TEXT})),
            r"`check_files\(String pin, String filters\) -> void` there, "
            r"`check_files\(String pin\) -> void` here",
        ),
        (
            replace(CONTRACT, calls=CONTRACT.calls[:-1]),
            r"`run_statement\(String name\) -> Object` there, `nothing` here",
        ),
    ],
)
def test_a_jvm_with_the_classes_of_another_version_is_refused(
    spark, lake, monkeypatch, changed, difference
):
    monkeypatch.setattr(serving, "CONTRACT", changed)
    with pytest.raises(UnsupportedFeature, match=difference):
        lakedex.attach(spark)
    monkeypatch.undo()
    lakedex.attach(spark)


@pytest.mark.parametrize("call", CONTRACT.calls, ids=lambda call: call.name)
def test_the_server_has_a_method_for_each_call(call):
    method = getattr(serving.TableServer, call.name)
    assert list(inspect.signature(method).parameters) == ["self", *call.parameters]


def test_the_parser_passes_on_the_kinds_that_python_handles(spark, lake):
    session = spark._jsparkSession
    parser = spark.sparkContext._jvm.lakedex.jvm.StatementParser
    plan = parser.parsed(session.sessionState().sqlParser(), "DROP TABLE trips")
    assert parser.isKnown(plan)
    parser.install(session, SEPARATOR.join(STATEMENT_KINDS - {"DropTable"}))
    try:
        assert not parser.isKnown(plan)
    finally:
        parser.install(session, SEPARATOR.join(STATEMENT_KINDS))
    assert parser.isKnown(plan)


def test_no_java_source_repeats_what_the_contract_says():
    texts = {value for value in CONTRACT.constants.values() if isinstance(value, str)}
    agreed = {text for text in texts if len(text) > 1} | set(CALLS_BY_NAME) | {r"\n", r"\t"}
    for source in files("lakedex.spark").joinpath("java").iterdir():
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", source.read_text(), flags=re.DOTALL)
        literals = set(re.findall(r'"((?:[^"\\]|\\.)*)"', text))
        assert not literals & agreed, source.name
