"""Options whose name begins with a prefix are repeated in the metadata of the commit."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.config.option_check import Use, check_options
from lakedex.errors import InvalidInput
from lakedex.services.inline import writer_with_services
from tests.support.write_lab import Lab, row, source

PREFIX = "hoodie.datasource.write.commitmeta.key.prefix"


def extra(lab: Lab) -> dict[str, str]:
    """What the newest commit says, but for what every commit says."""
    timeline = lakedex.open(lab.path).timeline
    said = timeline.commit_metadata(timeline.write_instants()[-1]).extra
    return {name: value for name, value in said.items() if not name.startswith("lakedex.")}


def write(lab: Lab, options: dict[str, str], verb: str = "upsert") -> dict[str, str]:
    writer = writer_with_services(lab.address, options=options)
    getattr(writer, verb)(source([row("a", "x", 1)]))
    said = extra(lab)
    assert '"name":"x"' in said.pop("schema").replace(" ", "")
    return said


@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete"])
def test_options_with_the_prefix_are_notes_of_the_commit(tmp_path, verb):
    lab = Lab(tmp_path)
    lab.writer.insert(source([row("a", "x", 0), row("b", "x", 0)]))
    notes = {"note.job": "7", "note.": "", "note.offsets": '{"0": 42}'}
    assert write(lab, {PREFIX: "note.", **notes}, verb) == notes
    # Without the option the prefix is that of Hudi.
    assert write(lab, {"_job": "8"}, "insert") == {"_job": "8"}
    assert write(lab, {}, "insert") == {}
    with pytest.raises(InvalidInput, match=r"no option is called 'note\.job'"):
        write(lab, {"note.job": "9"})
    with pytest.raises(InvalidInput, match="no option is called '_job'"):
        write(lab, {PREFIX: "note.", "_job": "9"})
    assert lakedex.open(lab.path).verify().ok


def test_a_commit_says_its_schema_and_its_own_notes_itself(tmp_path):
    lab = Lab(tmp_path)
    given = {"schema": "?", "latest_schema": "?", "lakedex.keys.unique": "?"}
    for name in given:
        with pytest.raises(InvalidInput, match="no option is called"):
            write(lab, {PREFIX: "", name: "?"})
    known = {PREFIX: "", "hoodie.metadata.enable": "true"}
    assert write(lab, known) == known


def test_a_misspelled_option_is_no_note():
    check_options({"_note": "x"})
    with pytest.raises(InvalidInput, match="did you mean"):
        check_options({"_hoodie.metadata.ignore.spurious.delete": "true"})
    with pytest.raises(InvalidInput, match="did you mean"):
        check_options({PREFIX: "hoodie.", "hoodie.index.typ": "BLOOM"})
    with pytest.raises(InvalidInput, match="no option is called"):
        check_options({"_note": "x"}, Use.READ)


def test_services_beside_a_write_repeat_no_notes(tmp_path):
    lab = Lab(tmp_path, "mor")
    options = {"_job": "7", "hoodie.compact.inline": "true"}
    options["hoodie.compact.inline.max.delta.commits"] = "1"
    lab.writer.upsert(source([row("a", "x", 0)]))
    writer = writer_with_services(lab.address, options=options)
    writer.upsert(source([row("a", "x", 1)]))
    timeline = lakedex.open(lab.path).timeline
    written, compacted = timeline.write_instants()[-2:]
    assert timeline.commit_metadata(written).extra["_job"] == "7"
    assert timeline.commit_metadata(compacted).operation_type == "COMPACT"
    assert "_job" not in timeline.commit_metadata(compacted).extra
