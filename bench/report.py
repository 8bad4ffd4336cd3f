"""What all benchmarks share: figures with goals, one table, best-of-several timing.

A benchmark is a script with a function `measure(quick)` that gives out figures, and ends in
`run(measure)`. Alone it prints its own table; `run.py` asks for `--json` and prints one for all.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number and, where there is one, the goal it is held against."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False
    """Whether the goal is a floor; otherwise it is a ceiling."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def ratio(self) -> float | None:
        """How many times better than the goal; below 1 it is missed."""
        if self.goal is None or not self.value or not self.goal:
            return None
        return self.value / self.goal if self.at_least else self.goal / self.value

    @property
    def is_better_higher(self) -> bool:
        """Whether more of it is better."""
        return self.at_least or self.unit.endswith(("/s", "x"))


def best(work: Callable[[], object], tries: int = 3, *, clock: str = "wall") -> float:
    """The least seconds of some runs, by the wall clock or by the `cpu` time of the process."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    seconds = []
    for _ in range(tries):
        begin = now()
        work()
        seconds.append(now() - begin)
    return min(seconds)


def resident_bytes(*, peak: bool = False) -> int:
    """The resident memory of this process, now or at its highest since `reset_peak`."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) * 1024
    return 0


def reset_peak() -> None:
    """Start to watch for the highest resident memory from here on."""
    Path("/proc/self/clear_refs").write_text("5")


def table(figures: Iterable[Figure], before: dict[str, float] | None = None) -> Iterator[str]:
    """The lines of a table; `before` holds the values of another revision by name."""
    figures = list(figures)
    width = max([len(figure.what) for figure in figures] + [4])
    head = f"{'what':{width}s}  {'figure':>18s}  {'goal':>16s}  {'met':3s}  {'ratio':>7s}"
    yield head + ("  against" if before else "")
    for figure in figures:
        line = f"{figure.what:{width}s}  {_amount(figure.value, figure.unit):>18s}  "
        line += f"{_goal(figure):>16s}  {_met(figure):3s}  "
        line += "       " if figure.ratio is None else f"{figure.ratio:6.2f}x"
        yield (line + _against(figure, before)).rstrip()


def run(measure: Callable[..., Iterable[Figure]], *, takes_rows: bool = False) -> None:
    """Measure, and print a table or JSON as the command line says.

    With `takes_rows` the command line may say how many rows there are, which `measure` is told.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--json", action="store_true", help="one JSON object for each figure")
    if takes_rows:
        parser.add_argument("--rows", type=int, help="so many rows, and all other sizes to fit")
    arguments = parser.parse_args()
    figures = []
    sizes = (arguments.rows,) if takes_rows else ()
    for figure in measure(arguments.quick, *sizes):
        figures.append(figure)
        # A benchmark takes minutes: whoever waits sees each figure as soon as it is known.
        print(f"  {figure.what}: {_amount(figure.value, figure.unit)}", file=sys.stderr, flush=True)
        if arguments.json:
            print(json.dumps(asdict(figure)), flush=True)
    if arguments.json:
        return
    print(load_line())
    print("\n".join(table(figures)))


def load_line() -> str:
    """How busy the machine is, which no figure can be understood without."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{os.cpu_count()} cores, load {load}, Python {sys.version.split()[0]}"


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 1000 else 1 if value >= 20 else 2
    return f"{value:,.{digits}f} {unit}"


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    sign = ">=" if figure.at_least else "<="
    return f"{sign} {figure.goal:,.10g}"


def _met(figure: Figure) -> str:
    return {None: "", True: "yes", False: "NO"}[figure.met]


def _against(figure: Figure, before: dict[str, float] | None) -> str:
    if not before or not before.get(figure.what) or not figure.value:
        return ""
    ratio = figure.value / before[figure.what]
    return f"  {ratio if figure.is_better_higher else 1 / ratio:6.2f}x"
