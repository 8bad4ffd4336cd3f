"""Every option name of Hudi has a verdict, and what is given to a read or a write meets it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.config import TableConfig, option_check
from lakedex.config.option_check import (
    SHORT_NAMES,
    Use,
    Verdict,
    canonical_name,
    canonical_names,
    check_options,
    check_spelling,
    hudi_option,
    hudi_options,
    is_own_name,
    nearest_name,
)
from lakedex.config.restated_options import RESTATED
from lakedex.config.write_option_names import OBEYED
from lakedex.config.write_options import WriteOptions
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.spark import read_spec
from lakedex.table.spec import TableSpec
from scripts.hudi_options import PAGE, page_text

PACKAGE = Path(option_check.__file__).parent.parent
OBEYED_NAMES = {name for option in OBEYED for name in option.names}
LISTED = hudi_options()
ODD_VALUE = "something-else"
CONFIG = TableConfig.from_properties(
    {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties"
)


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings come once for each name and process."""
    monkeypatch.setattr(option_check, "_warned", set())


def asked(name: str, use: Use, caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    """What becomes of an option: `refused`, `warned` or `served`, and the words."""
    caplog.clear()
    try:
        check_options({name: ODD_VALUE}, use)
        check_options({name: ODD_VALUE}, use)
    except LakedexError as error:
        return "refused", str(error)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) <= 1, "a warning comes once"
    return ("warned", said[0]) if said else ("served", "")


# cases B82, B83: misspelled option; option without effect
@pytest.mark.parametrize("use", Use)
def test_every_option_of_hudi_meets_its_verdict(use, caplog):
    caplog.set_level(logging.WARNING, logger="lakedex")
    for option in LISTED:
        name = option.name.replace("*", "anything")
        outcome, words = asked(name, use, caplog)
        if use not in option.uses:
            assert outcome == "warned", name
        else:
            assert outcome == option.verdict.value, name
        assert outcome == "served" or name in words
        if option.verdict is Verdict.REFUSED:
            for value in option.accepted:
                check_options({name: value}, use)


def test_a_write_is_told_of_each_option_by_its_verdict(caplog):
    """The same through the options of a write, where served ones are read or compared."""
    caplog.set_level(logging.WARNING, logger="lakedex")
    for option in LISTED:
        if Use.WRITE not in option.uses or option.verdict is Verdict.SERVED:
            continue
        name = option.name.replace("*", "anything")
        caplog.clear()
        if option.verdict is Verdict.REFUSED:
            with pytest.raises(UnsupportedFeature) as error:
                WriteOptions.resolve(CONFIG, {}, {name: ODD_VALUE})
            assert f"{name}={ODD_VALUE} ({option.reason})" in str(error.value)
        else:
            WriteOptions.resolve(CONFIG, {}, {name: ODD_VALUE})
            assert name in caplog.text


def test_a_served_option_is_read_by_the_code_and_no_other_is():
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.is_file()
    ).lower()
    for option in LISTED:
        name = option.name.removesuffix("*")
        is_read = option.name in OBEYED_NAMES | RESTATED or f'"{name.lower()}"' in sources
        if option.verdict is Verdict.SERVED:
            family = [each for each in LISTED if each.name.endswith("*") and each is not option]
            by_family = any(
                name.startswith(each.name[:-1]) and each.verdict is Verdict.SERVED
                for each in family
            )
            assert is_read or by_family, f"{option.name} is said to be served"
        else:
            assert option.name not in OBEYED_NAMES | RESTATED, f"{option.name} is served"
    own = {name for name in OBEYED_NAMES | RESTATED if not name.startswith("lakedex.")}
    assert not {name for name in own if hudi_option(name) is None}


def test_the_page_of_options_shows_the_list():
    text = PAGE.read_text(encoding="utf-8")
    assert text == page_text(text), "run scripts/hudi_options.py --docs"
    assert "`hoodie.datasource.hive_sync.enable` (accepted: `false`)" in text


def test_every_line_of_the_list_says_why():
    names = [option.name for option in LISTED]
    assert len(names) == len(set(names))
    assert all(option.reason for option in LISTED)
    assert sum(option.declared != "" for option in LISTED) > 700
    for option in LISTED:
        assert option.verdict is not Verdict.SERVED or option.accepted == ("",), option.name


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("as.of.instnt", "as.of.instant"),
        ("as_of_instant", "as.of.instant"),
        ("typ", "type"),
        ("primarykey", "primaryKey"),
        ("precombine_field", "preCombineField"),
        ("primaryKeys", "primaryKey"),
        ("metadata.enable", "hoodie.metadata.enable"),
        ("hoodie.metdata.enable", "hoodie.metadata.enable"),
        ("hoodie.datasource.query.tpye", "hoodie.datasource.query.type"),
        ("hoodie.index.typ", "hoodie.index.type"),
        ("Hoodie.Index.Type", "hoodie.index.type"),
        ("hoodie.metadata.column.stats.enable", "hoodie.metadata.index.column.stats.enable"),
        ("hoodie.clean.policy.max.commits", "hoodie.clean.max.commits"),
        ("hoodie.datasource.write.precombine.fields", "hoodie.datasource.write.precombine.field"),
        ("lakedex.record.index.window.dais", "lakedex.record.index.window.days"),
    ],
)
@pytest.mark.parametrize("use", Use)
def test_a_misspelled_name_is_refused_with_the_one_that_was_meant(name, meant, use):
    wanted = f"no option is called '{name}'; did you mean '{meant}'"
    with pytest.raises(InvalidInput, match=wanted.replace(".", r"\.")):
        check_options({name: "x"}, use, may_be_own=True)
    with pytest.raises(InvalidInput, match="did you mean"):
        check_spelling([name])


OWN = ["hoodie.my.company.thing", "owner", "comment", "time", "tag", "team.name", "hoodie.x", "p"]


@pytest.mark.parametrize("name", OWN)
def test_names_of_users_are_kept_among_properties_and_refused_among_options(name):
    check_options({name: "x"}, may_be_own=True)
    check_spelling([name])
    assert is_own_name(name)
    for use in Use:
        with pytest.raises(InvalidInput, match=f"no option is called '{name}'$"):
            check_options({name: "x"}, use)


def test_an_unknown_option_is_suggested_what_is_like_it_only():
    wrong = {
        "hoodie.clustering.plan.strateg.max.num.group": ".*'hoodie.clustering.plan.strategy.max"
    }
    for name, meant in (wrong | {"hoodie.foo": "$", "hoodie.all.my.things": "$"}).items():
        with pytest.raises(InvalidInput, match=f"no option is called '{name}'{meant}"):
            check_options({name: "x"})
    limits = {"maxcommitspertriger": "'maxCommitsPerTrigger'"}
    for name, meant in limits.items():
        with pytest.raises(InvalidInput, match=f"did you mean {meant}"):
            read_spec.hudi_options({name: "1"}, Use.READ, also=read_spec.STREAM_LIMITS)


def test_one_option_has_one_value_whatever_it_is_called():
    key = "hoodie.datasource.write.recordkey.field"
    with pytest.raises(InvalidInput, match=f"primaryKey='id' and {key}='x' are one option"):
        canonical_names({"primaryKey": "id", key: "x"})
    with pytest.raises(InvalidInput, match="are one option with two values"):
        canonical_names({"Hoodie.Index.Type": "BLOOM", "hoodie.index.type": "SIMPLE"})
    assert canonical_names({"primaryKey": "id", key: "id"}) == {key: "id"}
    assert canonical_names({"PRIMARYKEY": "id"}, any_case=False) == {"PRIMARYKEY": "id"}
    schema = pa.schema([("id", pa.string()), ("x", pa.string())])
    spec = TableSpec("t", schema, record_key="id", properties={"primaryKey": "id", key: "x"})
    with pytest.raises(InvalidInput, match="are one option with two values"):
        spec.resolve()


def test_no_option_is_taken_for_a_misspelling_of_another():
    for option in LISTED:
        check_spelling([option.name.replace("*", "anything")])
        assert canonical_name(option.name.lower()) == option.name
    assert {canonical_name(short.upper()) for short in SHORT_NAMES} == {*SHORT_NAMES.values()}


def test_a_refused_option_may_ask_for_what_happens_anyway(caplog):
    sync = "hoodie.datasource.hive_sync.enable"
    check_options({sync: "false"})
    check_options({sync: " FALSE "})
    with pytest.raises(UnsupportedFeature, match=f"{sync}=true .no other catalog is synced"):
        check_options({sync: "true"})
    with pytest.raises(UnsupportedFeature, match=r"hoodie\.index\.type=INMEMORY"):
        WriteOptions.resolve(CONFIG, {}, {"hoodie.index.type": "INMEMORY"})
    assert not caplog.records


def test_checking_costs_next_to_nothing():
    given = {option.name: "" for option in LISTED[:60]} | {"hoodie.my.company.thing": "x"}
    check_options(given, may_be_own=True)
    begun = time.perf_counter()
    for _ in range(20):
        check_options(given, may_be_own=True)
    assert (time.perf_counter() - begun) / 20 < 0.001


def test_the_nearest_of_several_names_is_meant():
    assert nearest_name("index.type", ["hoodie.bootstrap.index.type", "hoodie.index.type"]) == (
        "hoodie.index.type"
    )
    assert nearest_name("tble", ["table", "path"]) == "table"
    assert nearest_name("x", ["table", "path"]) is None
