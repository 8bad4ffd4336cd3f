"""`lakedex buckets`: the buckets of a bucket index as a picture, with what a resize would do.

Below the name of a partition stand a bar chart of the hash space, the first value of each bucket
where there is room, and marks: `S` split, `M` merged, `P` of a resize that pends, `+` of a later
plan. Of many buckets and partitions a few are listed, and how many are left out is said.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Final

import typer

from lakedex.cli import console
from lakedex.cli.arguments import (
    AsJson,
    HudiOptions,
    Limit,
    StorageOptions,
    TablePath,
    open_table,
    parse_hudi_options,
)
from lakedex.cli.console import Column, print_json
from lakedex.services.verifying.report import counted
from lakedex.write.resizing import BucketInfo, BucketReport, PartitionReport, ResizeInfo

_SPACE: Final = 1 << 31
_FEW_BUCKETS: Final = 12
"""So many buckets of a partition are listed by default."""
_FEW_PARTITIONS: Final = 8
_LEAST_LABEL: Final = 5
"""A bucket that is narrower in the picture has no number there."""
_NAMED: Final = 3
_WIDEST: Final = 120
_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN_HEIGHTS: Final = " .:-=+*#@"
_Marks = dict[int, tuple[str, str]]
"""By bucket its mark in the picture, and what becomes of it in words."""


def buckets(
    path: TablePath,
    *,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="Only this partition; may be repeated.", show_default=False),
    ] = None,
    limit: Limit = None,
    rows: Annotated[
        bool, typer.Option(help="Count the rows, for which footers and log files are read.")
    ] = True,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show the buckets of a bucket index: ranges, sizes, rows, and what a resize would do.

    Of each partition 12 buckets are listed, those to be resized and the largest first; --limit says
    another number. JSON has all of them. --option takes those of a resize, such as
    hoodie.bucket.index.split.threshold=1.5.
    """
    table = open_table(path, storage_option)
    with console.working("reading the buckets"):
        report = table.buckets(
            partition or (), options=parse_hudi_options(option), counts_rows=rows
        )
    if as_json:
        print_json(report.as_dict())
        return
    _print_head(report)
    shown = sorted(report.partitions, key=_interest)
    if not partition:
        shown = shown[:_FEW_PARTITIONS]
    for each in sorted(shown, key=lambda each: each.partition):
        _print_partition(report, each, _FEW_BUCKETS if limit is None else limit)
    left = len(report.partitions) - len(shown)
    if left:
        text = f"{counted(left, 'partition')} left out; --partition PATH shows one"
        console.say(text, console.QUIET)
    _print_due(report)


def _interest(each: PartitionReport) -> tuple[int, int, str]:
    """Partitions with resizes first, then the largest."""
    return -len(each.due) - len(each.pending), -each.size_bytes, each.partition


def _print_head(report: BucketReport) -> None:
    fields, limits = ", ".join(report.hash_fields), report.limits
    size = console.size
    console.say(f"{report.table}: {report.engine}, hash of {fields}", console.STRONG)
    console.say(
        f"{counted(report.count, 'bucket')} in {counted(len(report.partitions), 'partition')}, "
        f"{size(report.size_bytes)}; a new partition has {report.first_count:,}"
    )
    if report.expressions:
        console.say(f"numbers by partition: {report.expressions}")
    console.say(
        f"target {size(limits.target_bytes)}, too large above {size(limits.split_above)}, "
        f"too small below {size(limits.merge_below)}",
        console.QUIET,
    )
    if not report.partitions:
        console.say("no partition has rows yet")


def _print_partition(report: BucketReport, own: PartitionReport, most: int) -> None:
    rows = "" if own.rows is None else f", {counted(own.rows, 'row')}"
    console.say("")
    console.say(
        f"{own.partition or 'the table'}: {counted(len(own.buckets), 'bucket')}, "
        f"{console.size(own.size_bytes)}{rows}, largest {own.skew:.1f} times the mean",
        console.STRONG,
    )
    marks = _marks(own)
    for line in picture(own, min(console.width(), _WIDEST), marks, plain=not console.shows("█")):
        console.say(line)
    _list_buckets(report, own, marks, most)


def picture(
    own: PartitionReport, width: int, marks: _Marks | None = None, *, plain: bool = False
) -> list[str]:
    """The buckets of a partition as lines of text, from the lowest hash value to the highest.

    Args:
        own: The partition.
        width: How many characters a line has.
        marks: A letter for some buckets.
        plain: Whether only ASCII is used.
    """
    edges, sizes, numbers = _spans(own.buckets)
    heights = _PLAIN_HEIGHTS if plain else _HEIGHTS
    columns = [edges[-1] * column / width for column in range(width + 1)]
    bytes_before = [*accumulate(sizes, initial=0.0)]
    filled = [_interpolated(each, edges, bytes_before) for each in columns]
    shares = [after - before for before, after in pairwise(filled)]
    most = max(shares) or 1.0
    # What has any bytes is never drawn as if it had none.
    levels = [min(8, -int(-share / most * 8 // 1)) for share in shares]
    lines = ["".join(heights[level] for level in levels)]
    if len(own.buckets) * _LEAST_LABEL <= width:
        lines.append(_labels(edges, numbers, width))
    else:
        last = str(own.buckets[-1].number)
        per = len(own.buckets) / width
        note = f"{per:.1f} buckets a column" if per >= 1 else ""
        lines.append(f"|0{note:^{width - len(last) - 3}}{last}|")
    if marks:
        lines.append(_mark_line(edges, numbers, width, marks))
    return lines


def _spans(
    buckets: Sequence[BucketInfo],
) -> tuple[list[float], list[float], list[int]]:
    """The ends of what buckets own, the bytes there, and whose it is.

    The first bucket of a ring may own its end too, as a part of its own.
    """
    if buckets[0].last_hash is None:
        edges = [float(number) for number in range(len(buckets) + 1)]
        return edges, [float(each.size_bytes) for each in buckets], [b.number for b in buckets]
    ends = [float(each.last_hash or 0) + 1 for each in buckets]
    sizes = [float(each.size_bytes) for each in buckets]
    numbers = [each.number for each in buckets]
    over = _SPACE - ends[-1]
    if over:
        share = over / (over + ends[0])
        sizes = [sizes[0] * (1 - share), *sizes[1:], sizes[0] * share]
        numbers, ends = [*numbers, 0], [*ends, float(_SPACE)]
    return [0.0, *ends], sizes, numbers


def _interpolated(at: float, edges: Sequence[float], values: Sequence[float]) -> float:
    place = bisect_right(edges, at) - 1
    if place >= len(values) - 1:
        return values[-1]
    part = (at - edges[place]) / (edges[place + 1] - edges[place])
    return values[place] + part * (values[place + 1] - values[place])


def _labels(edges: Sequence[float], numbers: Sequence[int], width: int) -> str:
    line = [" "] * width
    for number, begin, end in zip(numbers, edges, edges[1:], strict=False):
        first, after = _column(begin, edges, width), _column(end, edges, width)
        text = f"|{number}"[: after - first]
        line[first : first + len(text)] = text
    return "".join(line)


def _mark_line(edges: Sequence[float], numbers: Sequence[int], width: int, marks: _Marks) -> str:
    line = [" "] * width
    for number, begin, end in zip(numbers, edges, edges[1:], strict=False):
        if number in marks:
            first, after = _column(begin, edges, width), _column(end, edges, width)
            for column in range(first, max(after, first + 1)):
                line[column] = marks[number][0]
    return "".join(line).rstrip()


def _column(at: float, edges: Sequence[float], width: int) -> int:
    return min(width - 1, round(at / edges[-1] * width)) if at < edges[-1] else width


def _marks(own: PartitionReport) -> _Marks:
    found: _Marks = dict.fromkeys(own.waiting, ("+", "by a later plan"))
    for due in own.due if own.due and own.due[0].action != "rescale" else ():
        for number in due.buckets:
            found[number] = (due.action[0].upper(), _said(due, number))
    for pending in own.pending:
        for number in pending.buckets:
            found[number] = ("P", f"{pending.action} pends: {pending.instant}")
    return found


def _said(due: ResizeInfo, number: int) -> str:
    if due.action == "split":
        return f"split into {due.into}"
    others = len(due.buckets) - 1
    if others > _NAMED:
        return f"merge with {others:,} others"
    return f"merge with {', '.join(str(each) for each in due.buckets if each != number)}"


def _hash_range(each: BucketInfo) -> str:
    first, last = each.first_hash or 0, each.last_hash or 0
    return f"{first} to {last}{' (wraps)' if first > last else ''}"


def _list_buckets(report: BucketReport, own: PartitionReport, marks: _Marks, most: int) -> None:
    order = sorted(own.buckets, key=lambda b: (b.number not in marks, -b.size_bytes, b.number))
    listed = sorted(order[:most], key=lambda each: each.number)
    has_logs = any(each.log_files for each in listed)
    columns = [Column("bucket", is_number=True)]
    columns += [Column("hash values")] if report.is_ring else []
    columns += [Column("size", is_number=True)]
    columns += [Column("rows", is_number=True)] if own.rows is not None else []
    columns += [Column("logs", is_number=True)] if has_logs else []
    columns += [Column("resize")] if marks else []
    rows = []
    for each in listed:
        row: list[object] = [each.number]
        row += [_hash_range(each)] if report.is_ring else []
        row += [console.size(each.size_bytes)]
        row += [each.rows] if own.rows is not None else []
        row += [each.log_files] if has_logs else []
        row += [marks[each.number][1] if each.number in marks else ""] if marks else []
        rows.append(row)
    if rows:
        console.table(columns, rows)
    left = order[most:]
    if left:
        sizes = [each.size_bytes for each in left]
        console.say(
            f"{counted(len(left), 'bucket')} left out, of {console.size(min(sizes))} to "
            f"{console.size(max(sizes))}; --limit N lists more",
            console.QUIET,
        )


def _print_due(report: BucketReport) -> None:
    due = [each for _, each in report.due]
    waiting = sum(len(each.waiting) for each in report.partitions)
    pending = sorted({p.instant for each in report.partitions for p in each.pending if p.instant})
    console.say("")
    for instant in pending:
        console.say(f"the resize {instant} pends: lakedex resize PATH --instant {instant}")
    if not due:
        if report.partitions and not pending:
            console.say("all buckets are of a good size", console.GOOD)
        return
    read = console.size(sum(each.bytes_read for each in due))
    written = console.size(sum(each.bytes_written for each in due))
    cost = f"reads {read} and writes about {written}"
    if report.is_ring:
        splits = sum(each.action == "split" for each in due)
        merges = len(due) - splits
        later = f"; {counted(waiting, 'bucket')} more in later plans" if waiting else ""
        console.say(
            f"due: {counted(splits, 'split')}, {counted(merges, 'merge')}; {cost}{later}",
            console.STRONG,
        )
        console.say("run it with: lakedex resize PATH")
        return
    console.say(f"due: {counted(len(due), 'rescale')}; {cost}", console.STRONG)
    numbers = sorted({each.into for each in due})
    for number in numbers:
        own = [name for name, each in report.due if each.into == number]
        whole = len(own) == len(report.partitions)
        named = "" if whole else "".join(f" --partition {name}" for name in own[:_FEW_PARTITIONS])
        rest = len(own) - _FEW_PARTITIONS
        more = f" (and {rest} more partitions)" if not whole and rest > 0 else ""
        console.say(f"run it with: lakedex resize PATH --buckets {number}{named}{more}")
