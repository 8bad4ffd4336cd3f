"""Runs the benchmarks, each in a process of its own, and prints one table.

    python bench/run.py [names] [--quick] [--strict] [--against REVISION] [--rounds 3]

`--against` measures another revision of lakedex with the same benchmarks, from a git worktree;
its last column says how many times better this tree is. Where that revision lacks what a benchmark
imports, its own benchmark of the same name is run. With several rounds the two take turns, and the
median of each figure counts. `--strict` fails when a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from report import ROOT, Figure, load_line, table

HERE = Path(__file__).resolve().parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
BESIDE = (".venv-interop", ".interop")
"""What Spark 3.5 and the other engines are in, which git does not have."""


def measured(
    name: str, root: Path, *, quick: bool, scripts: Path = HERE
) -> tuple[list[Figure], bool]:
    """The figures of one benchmark of the lakedex in `root`, and whether it ended well."""
    command = [sys.executable, str(scripts / f"bench_{name}.py"), "--json"]
    command += ["--quick"] if quick else []
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        print(f"{name}: ended with {done.returncode}, figures are missing", file=sys.stderr)
    figures = [Figure(**json.loads(line)) for line in done.stdout.splitlines()]
    return figures, not done.returncode


def measured_before(name: str, root: Path, *, quick: bool) -> list[Figure]:
    """The figures of another revision, by its own benchmark if it cannot run ours."""
    figures, ended_well = measured(name, root, quick=quick)
    own = root / "bench"
    if not ended_well and (own / f"bench_{name}.py").exists():
        print(f"{name}: measured by the benchmark of that revision", file=sys.stderr)
        figures, _ = measured(name, root, quick=quick, scripts=own)
    return figures


def medians(rounds: Sequence[list[Figure]]) -> list[Figure]:
    """Each figure once, with the median of what several rounds measured."""
    values: dict[str, list[float]] = {}
    for figure in (each for figures in rounds for each in figures):
        values.setdefault(figure.what, []).append(figure.value)
    first = {figure.what: figure for figures in reversed(rounds) for figure in figures}
    return [replace(first[what], value=statistics.median(of)) for what, of in values.items()]


@contextlib.contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """A checkout of a revision, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), revision], check=True)
        for each in BESIDE:
            (path / each).symlink_to(ROOT / each)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure lakedex.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all work")
    parser.add_argument("--strict", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--against", metavar="REVISION", help="compare with another revision")
    parser.add_argument("--rounds", type=int, default=1, help="measure so often; medians count")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(NAMES)}")
    names = arguments.names or NAMES
    print(load_line())
    broken = False
    figures: list[Figure] = []
    before: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(worktree(arguments.against)) if arguments.against else None
        for name in names:
            ours: list[list[Figure]] = []
            older: list[list[Figure]] = []
            for _ in range(max(1, arguments.rounds)):
                found, ended_well = measured(name, ROOT, quick=arguments.quick)
                broken |= not ended_well
                ours.append(found)
                if other is not None:
                    older.append(measured_before(name, other, quick=arguments.quick))
            figures += medians(ours)
            before |= {figure.what: figure.value for figure in medians(older)}
    print("\n".join(table(figures, before)))
    print(load_line())
    missed = [figure.what for figure in figures if figure.met is False]
    if missed:
        print(f"{len(missed)} goals missed")
    return int(broken or (arguments.strict and bool(missed)))


if __name__ == "__main__":
    sys.exit(main())
