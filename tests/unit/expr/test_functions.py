"""Scalar functions against values that Spark gives."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr import parse_predicate
from lakedex.expr.bind import bind_predicate
from lakedex.expr.evaluate import evaluate
from lakedex.expr.functions import function, function_names
from lakedex.expr.time_patterns import sorts_as_time
from lakedex.expr.tree import Call, Column, Literal

UTC = dt.UTC


def call(name, *arguments, zone="UTC"):
    """One call: lists are columns (of two rows at least), everything else a constant."""
    columns, parts = {}, []
    for index, argument in enumerate(arguments):
        if isinstance(argument, pa.Array):
            columns[f"c{index}"] = argument
            parts.append(Column((f"c{index}",), argument.type))
        else:
            parts.append(Literal(argument))
    rows = (
        pa.RecordBatch.from_pydict(columns) if columns else pa.RecordBatch.from_pydict({"x": [0]})
    )
    return evaluate(Call(name, tuple(parts)), rows, time_zone=zone).to_pylist()


def text(*values):
    return pa.array(values, pa.string())


def stamps(*values):
    moments = [None if value is None else dt.datetime.fromisoformat(value) for value in values]
    moments = [value and value.replace(tzinfo=UTC) for value in moments]
    return pa.array(moments, pa.timestamp("us", "UTC"))


def test_case_follows_the_full_unicode_mappings_as_java_does():
    assert call("upper", text("straße", "ﬁ", "ŉ", "a", None)) == ["STRASSE", "FI", "ʼN", "A", None]
    assert call("lower", text("ΟΔΟΣ", "İ", "ÄB", None)) == ["οδος", "i̇", "äb", None]
    assert not function("upper").portable


def test_trim_takes_blanks_only():
    assert call("trim", text("  a\t ", "")) == ["a\t", ""]
    assert call("ltrim", text("  a ")) == ["a "]
    assert call("rtrim", text("  a ")) == ["  a"]


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (1, 2, "ab"),
        (0, 2, "ab"),
        (2, 2, "b😀"),
        (-1, 5, "d"),
        (-3, 2, "b😀"[:0] + "b😀"),
        (-6, 3, "a"),
        (9, 1, ""),
        (1, 0, ""),
        (1, -1, ""),
        (2, 2**31 - 1, "b😀d"),
    ],
)
def test_substring_counts_characters_from_one_or_from_the_end(start, count, expected):
    assert call("substring", text("ab😀d"), start, count) == [expected]
    assert call("substr", text(None), start, count) == [None]


def test_substring_without_a_length_runs_to_the_end():
    assert call("substring", text("abc"), 2) == ["bc"]
    assert call("left", text("abc"), 2) == ["ab"]
    assert call("right", text("abc"), 2) == ["bc"]
    assert call("right", text("abc"), 0) == [""]


def test_other_string_functions():
    assert call("length", text("a😀", None)) == [2, None]
    assert call("length", pa.array([b"\xff\x00"])) == [2]
    assert call("concat", text("a", None), "-", pa.array([1, 2])) == ["a-1", None]
    assert call("reverse", text("a😀b")) == ["b😀a"]
    assert call("replace", text("abab"), "b", "xx") == ["axxaxx"]
    assert call("replace", text("abab"), "", "x") == ["abab"]
    assert call("lpad", text("7", "1234", None), 3, "0") == ["007", "123", None]
    assert call("lpad", text("x"), 6, "ab") == ["ababax"]
    assert call("rpad", text("x", "abcd"), 3, "yz") == ["xyz", "abc"]
    assert call("rpad", text("x"), 3, "") == ["x"]
    assert call("contains", text("abc", None), "b") == [True, None]


def test_choices():
    assert call("coalesce", pa.array([None, 2]), pa.array([1, 9])) == [1, 2]
    assert call("nvl", text(None, "a"), "z") == ["z", "a"]
    nan = float("nan")
    greatest = call("greatest", pa.array([1.0, nan, None]), pa.array([5.0, 2.0, 3.0]))
    assert greatest[0] == 5.0
    assert math.isnan(greatest[1])
    assert greatest[2] == 3.0
    assert call("least", pa.array([1.0, nan]), pa.array([5.0, 2.0])) == [1.0, 2.0]
    assert call("if", pa.array([True, False, None]), 1, 2) == [1, 2, 2]


def test_parts_of_dates_before_1970_and_at_the_turn_of_years():
    days = pa.array([dt.date(1969, 12, 31), dt.date(2021, 1, 3), dt.date(2020, 12, 31), None])
    assert call("year", days) == [1969, 2021, 2020, None]
    assert call("quarter", days) == [4, 1, 4, None]
    assert call("month", days) == [12, 1, 12, None]
    assert call("day", days) == [31, 3, 31, None]
    assert call("dayofweek", days) == [4, 1, 5, None]
    assert call("dayofyear", days) == [365, 3, 366, None]
    assert call("weekofyear", days) == [1, 53, 53, None]
    assert call("last_day", days)[0] == dt.date(1969, 12, 31)


def test_every_day_of_eight_centuries_agrees_with_the_calendar_of_python():
    numbers = pa.array(range(-150_000, 150_000, 37), pa.int32()).cast(pa.date32())
    days = numbers.to_pylist()
    assert call("year", numbers) == [day.year for day in days]
    assert call("dayofyear", numbers) == [day.timetuple().tm_yday for day in days]
    assert call("weekofyear", numbers) == [day.isocalendar().week for day in days]
    assert call("date_format", numbers, "yyyy-MM-dd EEEE MMM") == [
        day.strftime(f"{day.year:04d}-%m-%d %A %b") for day in days
    ]


def test_the_session_zone_decides_parts_of_zoned_timestamps():
    # case B7: session time zone
    moment = stamps("2020-12-31T23:30:00", "2021-07-01T22:30:00")
    assert call("year", moment, zone="UTC") == [2020, 2021]
    assert call("year", moment, zone="Europe/Berlin") == [2021, 2021]
    assert call("hour", moment, zone="Europe/Berlin") == [0, 0]
    assert call("hour", moment, zone="-03:30") == [20, 19]
    assert call("to_date", moment, zone="Asia/Tokyo") == [dt.date(2021, 1, 1), dt.date(2021, 7, 2)]
    with pytest.raises(InvalidInput, match="Nowhere"):
        call("hour", moment, zone="Nowhere/Land")
    naive = moment.cast(pa.timestamp("us"))
    assert call("hour", naive, zone="Asia/Tokyo") == [23, 22]


def test_offsets_before_standard_time_are_those_of_the_zone_database():
    # case B7: pre-1900 offsets
    moment = stamps("1880-01-01T00:00:00")
    # Berlin kept local mean time, 53 minutes and 28 seconds ahead.
    shown = call("date_format", moment, "HH:mm:ss", zone="Europe/Berlin")
    assert shown == ["00:53:28"]


def test_date_format_writes_every_supported_field():
    moment = stamps("2021-03-04T15:06:07.089012")
    pattern = "yyyy yy M MM MMM MMMM d dd H HH h hh m mm s ss S SSS SSSSSS E EEEE a 'at' ''"
    expected = "2021 21 3 03 Mar March 4 04 15 15 3 03 6 06 7 07 0 089 089012 Thu Thursday PM at '"
    assert call("date_format", moment, pattern) == [expected]
    assert call("date_format", stamps("2021-03-04T00:30:00"), "h a") == ["12 AM"]
    assert call("date_format", stamps(None), "yyyy") == [None]


def test_years_with_more_than_four_digits_get_a_sign():
    # case B6: year >= 10000
    far = pa.array([2932897, -719529], pa.int32()).cast(pa.date32())
    assert call("date_format", far, "yyyy-MM-dd") == ["+10000-01-01", "-0001-12-31"]


@pytest.mark.parametrize("pattern", ["yyyy-DD", "Q", "VV", "[yyyy]", "yyyyyyy", "z", "G"])
def test_a_field_that_is_not_implemented_is_refused_by_name(pattern):
    with pytest.raises(UnsupportedFeature):
        call("date_format", stamps("2021-03-04T00:30:00"), pattern)
    assert not sorts_as_time(pattern)


def test_from_unixtime_uses_the_session_zone_and_a_default_pattern():
    seconds = pa.array([0, -1, None])
    assert call("from_unixtime", seconds) == ["1970-01-01 00:00:00", "1969-12-31 23:59:59", None]
    assert call("from_unixtime", seconds, "yyyy-MM-dd HH", zone="+02:00")[0] == "1970-01-01 02"


def test_text_becomes_dates_and_times_by_patterns():
    assert call("to_date", text("04.03.2021", "31.02.2021", "x", None), "dd.MM.yyyy") == [
        dt.date(2021, 3, 4),
        None,
        None,
        None,
    ]
    assert call("to_date", text("2021-3-4", "2021-03-04T99", "2021-03-04x")) == [
        dt.date(2021, 3, 4),
        dt.date(2021, 3, 4),
        None,
    ]
    # The day is that of a moment, which is a later one where clocks skip a day.
    skipped = call("to_date", text("2011-12-30"), "yyyy-MM-dd", zone="Pacific/Apia")
    assert skipped == [dt.date(2011, 12, 31)]
    moment = call("to_timestamp", text("20210304 0506"), "yyyyMMdd HHmm", zone="+01:00")
    assert moment == [dt.datetime(2021, 3, 4, 4, 6, tzinfo=UTC)]
    assert call("unix_timestamp", text("1970-01-01 00:00:05", "x")) == [5, None]
    assert call("unix_timestamp", stamps("1969-12-31T23:59:59.5")) == [0]


def test_times_in_a_gap_move_forward_and_in_an_overlap_are_the_earlier():
    spring = call("to_timestamp", text("2021-03-28 02:30:00"), zone="Europe/Berlin")
    assert spring == [dt.datetime(2021, 3, 28, 1, 30, tzinfo=UTC)]
    autumn = call("to_timestamp", text("2021-10-31 02:30:00"), zone="Europe/Berlin")
    assert autumn == [dt.datetime(2021, 10, 31, 0, 30, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("YEAR", "2021-01-01T00:00:00"),
        ("quarter", "2021-04-01T00:00:00"),
        ("mon", "2021-05-01T00:00:00"),
        ("week", "2021-05-03T00:00:00"),
        ("day", "2021-05-06T00:00:00"),
        ("hour", "2021-05-06T07:00:00"),
        ("minute", "2021-05-06T07:08:00"),
        ("second", "2021-05-06T07:08:09"),
        ("nonsense", None),
    ],
)
def test_date_trunc_cuts_to_the_start_of_the_unit(unit, expected):
    moment = stamps("2021-05-06T07:08:09.5")
    assert call("date_trunc", unit, moment) == stamps(expected).to_pylist()


def test_date_arithmetic():
    day = pa.array([dt.date(2021, 5, 6), None])
    assert call("date_add", day, 30) == [dt.date(2021, 6, 5), None]
    assert call("date_sub", day, 6) == [dt.date(2021, 4, 30), None]
    assert call("datediff", day, dt.date(2021, 5, 1)) == [5, None]
    assert call("trunc", day, "week") == [dt.date(2021, 5, 3), None]
    assert call("trunc", day, "Q?") == [None, None]
    assert call("last_day", day) == [dt.date(2021, 5, 31), None]


def test_integers_wrap_around_and_division_by_zero_is_null():
    top = pa.array([2**31 - 1, None], pa.int32())
    one = pa.array([1, 1], pa.int32())
    assert call("+", top, one) == [-(2**31), None]
    assert call("-", pa.array([-(2**63)]), pa.array([1])) == [2**63 - 1]
    assert call("*", pa.array([2**62]), pa.array([4])) == [0]
    assert call("negative", pa.array([-(2**31)], pa.int32())) == [-(2**31)]
    assert call("abs", pa.array([-(2**31), -5], pa.int32())) == [-(2**31), 5]
    assert call("/", pa.array([7, 7]), pa.array([2, 0])) == [3.5, None]
    assert call("%", pa.array([-7, 7, 7]), pa.array([2, -2, 0])) == [-1, 1, None]
    assert call("mod", pa.array([-7.5, 7.5]), pa.array([2.0, 0.0])) == [-1.5, None]
    assert call("div", pa.array([-7, 7, 1]), pa.array([2, 2, 0])) == [-3, 3, None]


def test_decimals_are_computed_exactly():
    left = pa.array([Decimal("1.25"), None], pa.decimal128(5, 2))
    right = pa.array([Decimal("0.5"), Decimal("1.0")], pa.decimal128(3, 1))
    assert call("+", left, right) == [Decimal("1.75"), None]
    assert call("*", left, right) == [Decimal("0.625"), None]
    assert call("negative", left) == [Decimal("-1.25"), None]
    with pytest.raises(UnsupportedFeature):
        call("/", left, right)


def test_rounding():
    numbers = pa.array([-1.5, float("nan"), 1e300])
    assert call("floor", numbers) == [-2, 0, 2**63 - 1]
    assert call("ceil", numbers) == [-1, 0, 2**63 - 1]
    exact = pa.array([Decimal("-1.25"), Decimal("99.95")], pa.decimal128(4, 2))
    assert call("ceiling", exact) == [Decimal(-1), Decimal(100)]
    assert call("floor", exact) == [Decimal(-2), Decimal(99)]
    assert call("round", exact, 1) == [Decimal("-1.3"), Decimal("100.0")]
    assert call("round", pa.array([5])) == [5]
    with pytest.raises(UnsupportedFeature):
        call("round", numbers, 1)


def test_an_unknown_function_is_refused_with_its_neighbours():
    with pytest.raises(InvalidInput, match=r"'uper'.*upper"):
        call("uper", text("a"))
    with pytest.raises(InvalidInput, match="upper takes 1"):
        call("upper", text("a"), "b")
    with pytest.raises(InvalidInput, match="must be a constant"):
        call("replace", text("a"), text("b"), "c")


def test_constants_alone_are_computed_once_for_all_rows():
    assert call("upper", "abc") == ["ABC"]
    assert call("concat", "a", "b") == ["ab"]


@pytest.mark.parametrize("name", function_names())
def test_every_function_can_be_found_by_each_of_its_names(name):
    assert function(name).arity[0] <= function(name).arity[1]


def test_rlike_finds_a_match_anywhere_as_java_does():
    rows = text("xaby", "AB", "a\nb", "", None)
    assert call("rlike", rows, "ab") == [True, False, False, False, None]
    assert call("rlike", rows, "a.b") == [False, False, False, False, None]
    assert call("rlike", rows, "a.?b|A") == [True, True, False, False, None]
    assert call("rlike", rows, "") == [True, True, True, True, None]
    assert call("rlike", rows, None) == [None] * 5
    with pytest.raises(UnsupportedFeature, match="that begins with"):
        call("rlike", rows, "(?i)ab")


def test_ilike_compares_both_sides_in_lower_case():
    rows = pa.table({"s": text("Straße", "STRASSE", "ÄB%", "xK", None)})
    for condition, expected in {
        "s ILIKE 'stra%'": [True, True, False, False, None],
        "s ILIKE '%äb\\%'": [False, False, True, False, None],
        "s ILIKE '%äb!%' ESCAPE '!'": [False, False, True, False, None],
        "regexp_like(s, '^x|^S')": [True, True, False, True, None],
        "s REGEXP 'B.$'": [False, False, True, False, None],
        "s NOT ILIKE 's%'": [False, False, True, True, None],
    }.items():
        predicate = bind_predicate(parse_predicate(condition), rows.schema)
        assert evaluate(predicate, rows).to_pylist() == expected, condition
