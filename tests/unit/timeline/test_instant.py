"""Instants: names of timeline files and the order of times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.config import TimelineZone
from lakedex.errors import InvalidInput, LakedexError
from lakedex.timeline.instant import Action, Instant, State, file_name, parse_instant_file
from lakedex.timeline.instant_time import (
    from_epoch_ms,
    instant_key,
    next_instant_time,
    parse_query_time,
    to_epoch_ms,
)

T, C = "20261115183054119", "20261115183120007"
UTC, LOCAL = TimelineZone.UTC, TimelineZone.LOCAL


@pytest.mark.parametrize(
    ("name", "layout", "expected"),
    [
        (f"{T}.deltacommit.requested", 2, (Action.DELTACOMMIT, State.REQUESTED, None)),
        (f"{T}.deltacommit.inflight", 1, (Action.DELTACOMMIT, State.INFLIGHT, None)),
        (f"{T}_{C}.deltacommit", 2, (Action.DELTACOMMIT, State.COMPLETED, C)),
        (f"{T}.deltacommit", 1, (Action.DELTACOMMIT, State.COMPLETED, None)),
        (f"{T}.inflight", 2, (Action.COMMIT, State.INFLIGHT, None)),  # has no action in its name
        (f"{T}.commit.requested", 2, (Action.COMMIT, State.REQUESTED, None)),
        (f"{T}.compaction.requested", 2, (Action.COMPACTION, State.REQUESTED, None)),
        (f"{T}.clustering.inflight", 2, (Action.CLUSTERING, State.INFLIGHT, None)),
        (f"{T}_{C}.replacecommit", 2, (Action.REPLACECOMMIT, State.COMPLETED, C)),
        (f"{T}_{C}.savepoint", 2, (Action.SAVEPOINT, State.COMPLETED, C)),
        (f"{T}_{C}.indexing", 2, (Action.INDEXING, State.COMPLETED, C)),
    ],
)
def test_names_of_every_state_parse_and_format_back(name, layout, expected):
    instant = parse_instant_file(name, layout)
    assert instant is not None
    assert (instant.action, instant.state, instant.completion_time) == expected
    assert instant.requested_time == T
    assert file_name(instant, layout) == name


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "history",
        "metadata",
        "_version_",
        f"{T}",
        f"{T}.commit.done",
        f"{T}.unknown",
        f"{T}_{C}.commit.requested",
        f"x{T}.commit",
        f"{T}.commit.crc",
        f".{T}.commit.crc",
        "1.commit",
        f"{T}_1.commit",
        "",
    ],
)
def test_other_names_are_no_instants(name):
    assert parse_instant_file(name, 2) is None


def test_completion_times_do_not_belong_to_layout_one():
    assert parse_instant_file(f"{T}_{C}.commit", 1) is None


@given(st.text(max_size=60), st.sampled_from([1, 2]))
def test_any_name_parses_or_is_none(name, layout):
    parsed = parse_instant_file(name, layout)
    assert parsed is None or parsed.requested_time.isdigit()


def test_actions_complete_under_their_own_or_another_name():
    assert Action.COMPACTION.completed is Action.COMMIT
    assert Action.LOGCOMPACTION.completed is Action.DELTACOMMIT
    assert Action.CLUSTERING.completed is Action.REPLACECOMMIT
    assert Action.CLEAN.completed is Action.CLEAN
    assert file_name(Instant(T, Action.COMPACTION, State.COMPLETED, C), 2) == f"{T}_{C}.commit"


def test_an_instant_that_is_no_time_gets_no_file_name():
    with pytest.raises(InvalidInput):
        file_name(Instant("../../x", Action.COMMIT, State.COMPLETED), 1)


def test_suffixed_and_short_times_sort_where_they_belong():  # case B37: instant times with a suffix
    times = [
        "00000000000000010",
        "00000000000000011",
        "20261115183539393",
        "20261115183539394",
        "20261115183539394001",
        "20261115183539394010",
        "20261115183539395",
        "20261115183539",
        "20261115183540000",
    ]
    shuffled = set(times)
    assert sorted(shuffled, key=instant_key) == times
    instants = [Instant(time, Action.DELTACOMMIT, State.COMPLETED) for time in times]
    assert sorted(set(instants)) == instants


def test_times_turn_into_moments_and_back():
    assert to_epoch_ms("20261115183005287", UTC) == 1794767405287
    assert to_epoch_ms("20261115183005287010", UTC) == 1794767405287
    assert to_epoch_ms("20261115183005", UTC) == 1794767405999
    assert to_epoch_ms("00000000000000010", UTC) == 10
    assert from_epoch_ms(1794767405287, UTC) == "20261115183005287"


@given(st.integers(0, 253402300799999))
def test_every_moment_survives_a_round_trip(epoch_ms):
    assert to_epoch_ms(from_epoch_ms(epoch_ms, UTC), UTC) == epoch_ms


@given(st.integers(1_000_000_000_000, 2_000_000_000_000))
def test_every_moment_survives_a_round_trip_in_the_local_zone(epoch_ms):
    text = from_epoch_ms(epoch_ms, LOCAL)
    assert from_epoch_ms(to_epoch_ms(text, LOCAL), LOCAL) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15 18:30:05.287", "20261115183005287"),
        ("2026-11-15T18:30:05.287", "20261115183005287"),
        ("2026-11-15 18:30:05", "20261115183005999"),
        ("2026-11-15", "20261115000000000"),
        ("2026-11-15T18:30:05Z", "20261115183005999"),
        ("2026-11-15T20:30:05.2+02:00", "20261115183005200"),
        ("20261115183005", "20261115183005999"),
        (" 20261115183005287 ", "20261115183005287"),
        ("20261115183539394001", "20261115183539394001"),
        ("202611151830", "20261115183000000"),
        ("20261115", "20261115000000000"),
    ],
)
def test_user_forms_of_time_are_read_as_hudi_reads_them(text, expected):
    assert parse_query_time(text, UTC) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "15.11.2026",
        "2026-11-15 25:00:00",
        "1",
        "20261399",
    ],
)
def test_other_forms_are_refused(text):
    with pytest.raises(InvalidInput):
        parse_query_time(text, UTC)


@given(st.one_of(st.text(max_size=30), st.from_regex(r"[0-9]{14,26}", fullmatch=True)))
def test_any_text_is_a_time_or_our_error(text):
    try:
        moment = parse_query_time(text, LOCAL)
        assert moment
        to_epoch_ms(moment, LOCAL)
        assert instant_key(next_instant_time(moment)) > instant_key(moment)[:17]
    except LakedexError:
        return
