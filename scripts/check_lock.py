"""Check that the locks can be trusted: they fit pyproject.toml, pin by hash and name no host.

A lock is fresh when every requirement of the project, and of the dependency groups it was made
for, is pinned in it by a version that the requirement allows.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS: dict[str, tuple[str, ...]] = {
    "bootstrap": ("bootstrap",),
    "dev": ("", "dev", "docs"),
    "interop": ("", "interop"),
    "executor": ("executor",),
}
HOST = re.compile(r"://|--(?:extra-)?index-url|--find-links| @ ")


def main() -> int:
    """Print every problem of every lock; the exit code says whether there was one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    problems = []
    for name, groups in LOCKS.items():
        text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
        wanted = [requirement for group in groups for requirement in group_of(project, group)]
        problems += [f"requirements/{name}.lock: {what}" for what in problems_of(text, wanted)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("run `make lock`", file=sys.stderr)
    else:
        print(f"{len(LOCKS)} locks fit pyproject.toml")
    return 1 if problems else 0


def group_of(project: dict[str, Any], group: str) -> list[str]:
    """The requirements of one dependency group, included groups too; "" is the project itself."""
    if not group:
        return list(project["project"]["dependencies"])
    found: list[str] = []
    for entry in project["dependency-groups"][group]:
        found += [entry] if isinstance(entry, str) else group_of(project, entry["include-group"])
    return found


def problems_of(text: str, wanted: list[str]) -> list[str]:
    """What is wrong with a lock of that text, for those requirements."""
    problems = [f"names a host: {line}" for line in text.splitlines() if HOST.search(line)]
    pins: dict[str, list[str]] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        pin = entry.partition(" --hash=")[0].strip()
        if not pin or pin.startswith("#"):
            continue
        if "--hash=sha256:" not in entry:
            problems.append(f"{pin} has no hash")
        name, _, version = pin.partition(";")[0].strip().partition("==")
        pins.setdefault(canonicalize_name(name), []).append(version)
    for text_of_one in wanted:
        requirement = Requirement(text_of_one)
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not versions or not all(requirement.specifier.contains(one) for one in versions):
            problems.append(
                f"{text_of_one} is wanted, pinned is {', '.join(versions) or 'nothing'}"
            )
    return problems


if __name__ == "__main__":
    sys.exit(main())
