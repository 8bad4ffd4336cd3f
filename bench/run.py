"""Runs the benchmarks, each in a process of its own, and prints one table.

    python bench/run.py [names] [--quick] [--strict] [--against REVISION]

`--against` measures another revision of lakedex with the same benchmarks, from a git worktree;
its last column says how many times better this tree is. `--strict` fails when a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from report import ROOT, Figure, load_line, table

HERE = Path(__file__).resolve().parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def measured(name: str, root: Path, *, quick: bool) -> tuple[list[Figure], bool]:
    """The figures of one benchmark of the lakedex in `root`, and whether it ended well."""
    command = [sys.executable, str(HERE / f"bench_{name}.py"), "--json"]
    command += ["--quick"] if quick else []
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        print(f"{name}: ended with {done.returncode}, figures are missing", file=sys.stderr)
    figures = [Figure(**json.loads(line)) for line in done.stdout.splitlines()]
    return figures, not done.returncode


@contextlib.contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """A checkout of a revision, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), revision], check=True)
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
            found, ended_well = measured(name, ROOT, quick=arguments.quick)
            broken |= not ended_well
            figures += found
            if other is not None:
                older, _ = measured(name, other, quick=arguments.quick)
                before |= {figure.what: figure.value for figure in older}
    print("\n".join(table(figures, before)))
    print(load_line())
    missed = [figure.what for figure in figures if figure.met is False]
    if missed:
        print(f"{len(missed)} goals missed")
    return int(broken or (arguments.strict and bool(missed)))


if __name__ == "__main__":
    sys.exit(main())
