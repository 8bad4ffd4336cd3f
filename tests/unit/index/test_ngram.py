"""The ngram kind: pieces that conditions require, grams of texts, and lookups against scans."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakedex
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr import parse_predicate
from lakedex.expr.bind import bind_predicate
from lakedex.expr.evaluate import evaluate
from lakedex.expr.normal_form import normalise
from lakedex.filegroup import read_slice
from lakedex.index.contract import Question
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.file_index.run import inverted, list_runs, pairs_of, read_heads
from lakedex.index.kinds.ngram import NgramKind
from lakedex.index.kinds.ngram.conditions import Piece, folded, required_pieces
from lakedex.index.kinds.ngram.kind import bits_of_pieces, bits_of_texts
from lakedex.services.index_creating import create_index
from lakedex.services.index_estimating import estimate_index
from tests.support.index_lab import IndexLab
from tests.support.write_lab import Row, source

NAMES = ("ngram_index_grams", "ngram_index_small")
WITH_ALL = lakedex.ReadOptions(weighs_cost=False)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("message", pa.string()),
        ("n", pa.int64()),
    ]
)
WORDS = (
    "disk", "Disk", "DISK7", "timeout", "İstanbul", "Kelvin", "ΔΟΣ", "straße", "STRASSE", "日本語",
    "a.b", "100%", "x_y", r"back\slash", "(brackets)", "", " ", "\n", "é", "ﬁn", "ÄÖ", "K", "i̇",
    "🎉ok",
)  # fmt: skip


def pieces(condition: str) -> object:
    return required_pieces(bind_predicate(parse_predicate(condition), SCHEMA), ("message",))


def whole(text: str) -> Piece:
    return Piece(text, at_start=True, at_end=True)


def test_conditions_require_pieces():
    start = Piece("ab", at_start=True)
    assert pieces("message = 'ab'") == [[whole("ab")]]
    assert pieces("message IN ('ab', 'c', null)") == [[whole("ab")], [whole("c")]]
    assert pieces("message LIKE 'ab%c_'") == [[start, Piece("c")]]
    assert pieces(r"message LIKE '%a\\%b%'") == [[Piece("a%b")]]
    assert pieces("message LIKE 'ab'") == [[whole("ab")]]
    assert pieces("startswith(message, 'ab')") == [[start]]
    assert pieces("endswith(message, 'ab')") == [[Piece("ab", at_end=True)]]
    assert pieces("contains(message, 'AB')") == [[Piece("AB")]]
    assert pieces("message ILIKE '%Ab%'") == [[Piece("ab")]]
    assert pieces("message ILIKE 'aÄb%'") == [[Piece("a", at_start=True), Piece("b")]]
    assert pieces("lower(message) = 'äb'") == [[Piece("b", at_end=True)]]
    for nothing in (
        "message LIKE '%'",
        "message LIKE '__'",
        "message ILIKE '%Ä%'",
        "message <> 'ab'",
        "message > 'ab'",
        "message IS NULL",
        "n = 5",
        "upper(message) = 'AB'",
        "message NOT LIKE '%ab%'",
        "concat(message, 'x') LIKE '%ab%'",
    ):
        assert not pieces(nothing), nothing


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("disk failure", [["disk failure"]]),
        ("disk.*failed", [["disk", "failed"]]),
        ("disk|fan", [["disk"], ["fan"]]),
        ("colou?r", [["colo", "r"]]),
        ("ab+c", [["ab", "c"]]),
        ("ab{2,}c{0,3}d", [["ab", "d"]]),
        ("(?:x|y)abc(d|e)f", [["abc", "f"]]),
        (r"user-\d+\.txt", [["user-", ".txt"]]),
        (r"[a-z]+@example\.com$", [["@example.com"]]),
        (r"\bword\b", [["word"]]),
        ("a|", None),
        ("", None),
        (".*", None),
        ("(abc)", None),
        ("(?i)abc", None),
        ("(?=abc)d", None),
        (r"\Qabc\E", None),
        (r"a\x41b", None),
        ("[a[bc]]d", None),
        ("[]a]d", None),
        ("abc)", None),
        ("(abc", None),
        ("a{b", None),
        ("a**b", None),
    ],
)
def test_patterns_require_their_literals(pattern, expected):
    found = required_pieces(
        bind_predicate(parse_predicate(f"message RLIKE r'{pattern}'"), SCHEMA), ("message",)
    )
    assert (found or None) == (expected and [[Piece(t) for t in texts] for texts in expected])


TEXTS = st.lists(st.sampled_from([*WORDS, "a", "b"]), max_size=5).map("".join)


@given(TEXTS, TEXTS, st.integers(2, 8))
def test_the_grams_of_a_part_are_among_those_of_the_text(text, part, n):
    grams = bits_of_texts(pa.chunked_array([[None, text + part + text, "x"]]), n, 1 << 20)
    assert {*bits_of_pieces([Piece(part)], n, 1 << 20)} <= {*grams.tolist()}
    exact = bits_of_pieces([whole(text + part + text)], n, 1 << 20)
    assert {*exact.tolist()} <= {*grams.tolist()}


def test_no_gram_reaches_from_one_text_into_the_next():
    apart = bits_of_texts(pa.chunked_array([["ab", "cd"], ["", "e"]]), 3, 1 << 20)
    alone = [bits_of_texts(pa.chunked_array([[each]]), 3, 1 << 20) for each in ("ab", "cd", "e")]
    assert sorted(apart.tolist()) == sorted(bit for each in alone for bit in each.tolist())


@given(TEXTS)
def test_folding_is_the_same_for_constants_and_texts(text):
    def grams(value: str) -> set[int]:
        return {*bits_of_texts(pa.chunked_array([[value]]), 2, 1 << 20).tolist()}

    assert grams(text) == grams(folded(text))
    assert folded(folded(text)) == folded(text)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5))), st.integers(1, 6))
def test_inverted_lists_hold_all_entries(entries, most):
    values = pa.array([value for value, _ in entries], pa.int32())
    owners = pa.chunked_array([pa.array([owner for _, owner in entries], pa.int32())])
    distinct, lists = inverted(values, owners, 6, most=most)
    rows, numbers = pairs_of(lists, 6)
    found = {(distinct[row].as_py(), number) for row, number in zip(rows, numbers, strict=True)}
    assert found >= {*entries}
    common = {
        value for value in distinct.to_pylist() if len({o for v, o in entries if v == value}) > most
    }
    assert found == {*entries} | {(value, owner) for value in common for owner in range(6)}


def row(number: int, message: str | None, ver: int = 1) -> Row:
    return {
        "id": f"k{number:05}",
        "p": f"p{number % 2}",
        "ver": ver,
        "message": message,
        "n": number,
    }


class Logs(IndexLab):
    """A table of log lines, a few of them in each file."""

    unasked = frozenset({"column_stats", "partition_stats", "bloom_filters", "record_index"})

    def __init__(self, root: Path, kind: str = "cow", **options: str) -> None:
        super().__init__(root, kind, "GLOBAL_SIMPLE", schema=SCHEMA, **options)

    def insert(self, *rows: Row) -> None:
        self.writer.bulk_insert(source(rows, SCHEMA))

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Logs:
    dice = random.Random(4711)
    table = Logs(tmp_path_factory.mktemp("logs"), "mor")
    for first in range(0, 120, 12):
        rows = [" ".join(dice.choices(WORDS, k=4)) for _ in range(12)]
        table.insert(
            *(row(first + at, dice.choice([text, text, None])) for at, text in enumerate(rows))
        )
    table.upsert(
        *(row(number, f"changed {dice.choice(WORDS)} {number}", 2) for number in range(0, 120, 9))
    )
    table.index("grams", "message", "ngram")
    table.index("small", "message", "ngram", n="2", bits="300", common="1")
    # Files that are written later, and merged runs, are in it too.
    table.upsert(*(row(number, f"later {dice.choice(WORDS)}", 3) for number in range(0, 60, 7)))
    return table


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def random_condition(dice: random.Random) -> str:
    text = dice.choice(WORDS) + dice.choice(["", " ", *WORDS])
    first = dice.randrange(len(text) + 1)
    part = text[first : first + dice.randrange(1, 9)]
    like = re.sub(r"([%_\\])", r"\\\1", part)
    form = dice.choice(
        ["LIKE '%x%'", "LIKE 'x%'", "LIKE '%x'", "ILIKE '%x%'", "=", "IN", "contains", "startswith",
         "endswith", "RLIKE", "lower", "OR", "AND", "NOT", "mixed"]
    )  # fmt: skip
    if form in ("OR", "AND"):
        return f"({random_condition(dice)} {form} {random_condition(dice)})"
    if form == "NOT":
        return f"NOT {random_condition(dice)}"
    if form == "mixed":
        return (
            f"(message LIKE {quoted('%' + like + '_%' + like[:1].strip(chr(92)) + '%')} AND n > 3)"
        )
    if "LIKE '" in form:
        word, shape = form.split()
        swapped = like.swapcase() if word == "ILIKE" else like
        return f"message {word} {quoted(shape[1:-1].replace('x', swapped))}"
    if form == "=":
        return f"message = {quoted(text)}"
    if form == "IN":
        return f"message IN ({quoted(text)}, {quoted(part)}, null)"
    if form == "lower":
        return f"lower(message) LIKE {quoted('%' + like.lower() + '%')}"
    if form == "RLIKE":
        rest = dice.choice(["", ".*", "|zz", "s?$", "[a-z ]+"])
        return f"message RLIKE {quoted(re.escape(part) + rest)}"
    return f"{form}(message, {quoted(part)})"


def test_random_conditions_find_what_a_scan_finds(logs):
    """10,000 conditions: no slice is left out that has a matching row."""
    dice = random.Random(18)
    snapshot = logs.writer.snapshot()
    table = snapshot.indexed_table(time_zone="UTC")
    names = ["message", "n"]
    parts = [
        pa.concat_tables(read_slice(snapshot.read_context, each, names)) for each in table.slices
    ]
    rows = pa.concat_tables(parts)
    slice_of = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    tried = kept = pruned = 0
    for _ in range(10_000):
        condition = random_condition(dice)
        predicate = normalise(bind_predicate(parse_predicate(condition), rows.schema))
        try:
            matches = pc.fill_null(evaluate(predicate, rows), False).to_numpy()
        except UnsupportedFeature:
            continue
        for name in NAMES:
            answer = NgramKind().lookup(name, Question(predicate, table.slices, table))
            if isinstance(answer, str):
                continue
            tried += 1
            assert answer.covered.all()
            assert answer.keep[slice_of[matches]].all(), condition
            kept, pruned = kept + answer.keep.sum(), pruned + (~answer.keep).sum()
    assert tried > 12_000
    assert pruned > kept


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_queries_by_the_planner_read_few_files(tmp_path, monkeypatch, small):
    monkeypatch.setattr("lakedex.index.file_index.kind._SMALL_RUN_BYTES", small)
    logs = Logs(tmp_path)
    for first in range(0, 60, 6):
        logs.insert(
            *(
                row(number, f"host{number} sent {number * 17} bytes")
                for number in range(first, first + 6)
            )
        )
    logs.index("grams", "message", "ngram")
    assert logs.files("message LIKE '%host33 %'") == 1
    assert logs.files("message ILIKE '%HOST33 SENT%'") == 1
    assert logs.files("message RLIKE 'host3[0-9]|host47'") < 10
    assert logs.files("message RLIKE '^host1 sent 17 b.*s$'") == 1
    assert logs.files("message = 'host1 sent 17 bytes'") == 1
    assert logs.files("endswith(message, ' 561 bytes')") == 1
    assert logs.files("message LIKE '%ho%'") == 20
    assert logs.files("message LIKE '%host33%' OR n = 3") == 20
    assert logs.files("message LIKE '%host33 %' AND n > 3") == 1
    assert logs.files("message NOT LIKE '%host33%'") == 20
    steps = lakedex.open(logs.path, options=WITH_ALL).explain("message LIKE '%ho%'").steps
    reason = next(step.reason for step in steps if step.index == "ngram_index_grams")
    assert (
        reason
        == "the predicate has no condition on message with a constant part of 3 bytes or more"
    )
    logs.verified()


def test_a_gram_of_most_files_takes_no_space(tmp_path):
    logs = Logs(tmp_path)
    for first in range(0, 40, 4):
        logs.insert(*(row(at, f"the same beginning {at:05}") for at in range(first, first + 4)))
    for name, share in (("half", "0.5"), ("all", "1")):
        logs.index(name, "message", "ngram", common=share)
    # The files of an index that is built at once are one run; the other one is merged of such.
    definitions = file_index_definitions(logs.writer.snapshot().config)
    storage = logs.address.open()
    sizes = {}
    for name, definition in definitions.items():
        kind = NgramKind()
        (head, *_) = read_heads(storage, list_runs(storage, definition))
        entries = kind.read_entries(storage, head)
        data = kind.encode(definition, entries, head.files.num_rows)
        sizes[name] = data.table["files"].combine_chunks().null_count
    assert sizes["ngram_index_half"] > sizes["ngram_index_all"]
    assert logs.files("message LIKE '%beginning 00017'") == 1


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("n", {}, "column 'n' of type int64 cannot have an ngram index"),
        ("message", {"n": "1"}, "n='1': it is a whole number from 2 to 8"),
        ("message", {"bits": "many"}, "bits='many': it is a whole number from 256 to 16777216"),
        ("message", {"common": "0"}, "common='0': it is a share of files"),
        (
            "message",
            {"commom": "9"},
            "no option of an index is called 'commom'; did you mean 'common'",
        ),
    ],
)
def test_a_wrong_definition_is_refused(tmp_path, column, options, message):
    logs = Logs(tmp_path)
    logs.insert(row(1, "x"))
    with pytest.raises(InvalidInput, match=re.escape(message)):
        logs.index("grams", column, "ngram", **options)
    assert not file_index_definitions(logs.writer.snapshot().config)


def test_two_columns_are_refused(tmp_path):
    logs = Logs(tmp_path)
    logs.insert(row(1, "x"))
    with pytest.raises(InvalidInput, match="is on 2 columns: it takes one"):
        create_index(logs.writer, "grams", ["message", "p"], using="ngram")


@pytest.mark.parametrize("using", ["ngram", "bitmap"])
@pytest.mark.parametrize("files", [6, 60])
def test_an_estimate_is_near_the_size_of_the_index(tmp_path, using, files):
    dice = random.Random(files)
    logs = Logs(tmp_path)
    rows = [
        row(number, f"{dice.choice(WORDS)} {dice.randrange(1 << 40):x} {dice.choice(WORDS)}")
        | {"p": f"p{number % files}"}
        for number in range(files * 40)
    ]
    logs.insert(*rows)
    estimate = estimate_index(logs.writer.snapshot(), "message", using=using)
    assert not logs.writer.snapshot().config.raw.get("lakedex.file.indexes")
    logs.index("grams", "message", using)
    (definition,) = file_index_definitions(logs.writer.snapshot().config).values()
    size = sum(each.size_bytes for each in list_runs(logs.address.open(), definition))
    assert 0.5 < estimate.size_bytes / size < 1.5
    assert estimate.files == files
    assert estimate.bytes_per_write > 0
    twice = estimate_index(logs.writer.snapshot(), "message", using=using, growth=2.0)
    assert twice.size_bytes > estimate.size_bytes
    with pytest.raises(InvalidInput, match="commom"):
        estimate_index(logs.writer.snapshot(), "message", using=using, options={"commom": "1"})
    with pytest.raises(UnsupportedFeature, match="did you mean 'ngram'"):
        estimate_index(logs.writer.snapshot(), "message", using="ngrm")
