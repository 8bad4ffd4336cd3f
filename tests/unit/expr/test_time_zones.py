"""Time zones by the files of the database: as Python and Java know them, for all time."""

from __future__ import annotations

import datetime as dt
import struct
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from lakedex.errors import InvalidInput
from lakedex.expr import time_zones
from lakedex.expr.time_zones import from_local, offset_changes, to_local

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ZONES = [
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo"),
    *("Pacific/Apia", "Europe/Dublin", "America/Santiago", "Asia/Tehran", "Africa/Casablanca"),
]
MICROS = 1_000_000


def compiled(changes: list[tuple[int, int]], kinds: list[int], rule: str) -> bytes:
    """A file of the database: when which kind of time begins, and the offset of each kind."""
    times = b"".join(struct.pack(">q", when) for when, _ in changes)
    chosen = bytes(kind for _, kind in changes)
    offsets = b"".join(struct.pack(">ibB", offset, 0, 0) for offset in kinds)
    header = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, len(changes), len(kinds), 4)
    empty = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 4) + bytes(6 + 4)
    return empty + header + times + chosen + offsets + b"ABC\0\n" + rule.encode() + b"\n"


@pytest.mark.parametrize("zone", ZONES)
def test_offsets_are_those_of_python_until_its_last_year(zone):
    # case B7: offsets before 1900, and clock changes after 2037, which Arrow does not know
    known = ZoneInfo(zone)
    days = np.arange(-50_000, 400_000, 131, dtype=np.int64)
    seconds = np.concatenate([days * 86_400 + 3_600 * 5, [when for when, _ in _changes(zone)]])
    told = to_local(seconds * MICROS, zone) // MICROS - seconds
    wanted = [
        int((EPOCH + dt.timedelta(seconds=each)).astimezone(known).utcoffset().total_seconds())
        for each in seconds.tolist()
    ]
    assert told.tolist() == wanted


def _changes(zone: str) -> list[tuple[int, int]]:
    """All changes, from before the first one on."""
    return offset_changes(zone, -5 * 10**10, 8 * 10**9)


def test_a_rule_goes_on_for_ever():
    summer = int((dt.datetime(2050, 7, 1, tzinfo=dt.UTC) - EPOCH).total_seconds())
    cycle = 146_097 * 86_400
    far = np.array([summer + turns * cycle for turns in range(700)]) * MICROS
    assert set((to_local(far, "Europe/Berlin") - far).tolist()) == {7200 * MICROS}
    assert from_local(to_local(far, "Europe/Berlin"), "Europe/Berlin").tolist() == far.tolist()


@pytest.mark.parametrize("zone", ZONES)
def test_gaps_and_overlaps_follow_javas_rule_in_every_year(zone):
    for (_, before), (when, after) in pairwise(_changes(zone)):
        first, last = sorted([when + before, when + after])
        local = np.array([first - 1, first, last - 1, last]) * MICROS
        told = (local - from_local(local, zone)) // MICROS
        assert told.tolist() == [before, before, before, after], when


def test_a_small_file_says_what_a_large_one_says():
    # Small files list no change that the rule tells.
    rule = "EST5EDT,M3.2.0,M11.1.0"
    large = [(when, int(after == -14_400)) for when, after in _changes("America/New_York")]
    kinds = [-18_000, -14_400]
    recent = [each for each in large if each[0] > 1_167_609_600]
    one = time_zones._read(compiled(recent[:120], kinds, rule))
    other = time_zones._read(compiled(recent[:2], kinds, rule))
    seconds = np.arange(recent[0][0], 10**11, 8_640_000)
    assert one.at_instants(seconds).tolist() == other.at_instants(seconds).tolist()
    assert one.at_local(seconds).tolist() == other.at_local(seconds).tolist()


@pytest.mark.parametrize(
    ("rule", "day", "is_other"),
    [
        ("ABC-1DEF,J60/0,J300", "2024-03-01", True),  # the 29th of February is not counted
        ("ABC-1DEF,J60/0,J300", "2024-02-29", False),
        ("ABC-1DEF,59/0,300", "2024-02-29", True),
        ("<+02>-1<+03>-2,M3.4.4/50,M10.4.4/50", "2024-03-30", True),  # a Saturday
        ("<+02>-1<+03>-2,M3.4.4/50,M10.4.4/50", "2024-03-29", False),
        ("ABC-1DEF-2,M10.5.0,M3.5.0/3", "2024-01-15", True),  # south of the equator
        ("ABC-1DEF-2,0/0,J365/25", "2024-12-31", True),  # all year
    ],
)
def test_every_form_of_a_rule(rule, day, is_other):
    there = time_zones._read(compiled([], [3600], rule))
    noon = dt.datetime.fromisoformat(f"{day}T12:00:00+00:00")
    (offset,) = there.at_instants(np.array([int(noon.timestamp())])).tolist()
    assert offset == (7200 if is_other else 3600)


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "/etc/passwd", "", "Europe"])
def test_a_name_that_is_no_region_is_refused(zone):
    with pytest.raises(InvalidInput, match="cannot be used"):
        to_local(np.array([0]), zone)


def test_a_damaged_file_is_refused(tmp_path, monkeypatch):
    whole = compiled([(0, 1)], [0, 3600], "ABC-1")
    broken = [b"", whole[:50], whole[:-8], b"XXXX" + whole[4:], whole.replace(b"ABC-1", b"A-C-1")]
    broken.append(compiled([(0, 1)], [0, 3600], "ABC-2"))
    broken.append(compiled([(0, 9)], [0, 3600], "ABC-1"))
    for content in broken:
        monkeypatch.setattr(time_zones, "_bytes_of", lambda _, content=content: content)
        time_zones.region.cache_clear()
        with pytest.raises(InvalidInput, match="cannot be used"):
            time_zones.region("Odd/Place")
    time_zones.region.cache_clear()
