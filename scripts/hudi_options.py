"""List the options that a Hudi bundle declares, and hold lakedex's list against them.

    python scripts/hudi_options.py [bundle.jar] [--docs]

Prints the names that `lakedex/config/hudi_options.tsv` lacks or that Hudi no longer declares; each
new name gets a line there with a verdict. With `--docs` the table of `docs/options.md` is written
anew from the list. Needs a JDK and the jars of an installed pyspark.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

from lakedex.config.option_check import HudiOption, Verdict, hudi_options

ROOT = Path(__file__).resolve().parent.parent
JAR = ROOT / ".interop" / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"
PROGRAM = ROOT / "scripts" / "HudiOptions.java"
PAGE = ROOT / "docs" / "options.md"
BEGIN = "<!-- written by scripts/hudi_options.py -->"


def declared_options(jar: Path, spark_jars: Path) -> dict[str, tuple[str, str]]:
    """The class and the default value of every option of a bundle, by all its names."""
    command = ["java", "-cp", f"{jar}:{spark_jars}/*", str(PROGRAM), str(jar)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, tuple[str, str]] = {}
    for line in listing.splitlines():
        name, default, older, owner = line.split("\t")
        found[name] = (owner, default)
        for each in older.split():
            found.setdefault(each, (owner, default))
    return found


def differences(declared: dict[str, tuple[str, str]]) -> list[str]:
    """What the list has to be told about a bundle."""
    listed = {option.name for option in hudi_options() if option.declared}
    new = [f"new in Hudi: {name}\t{declared[name]}" for name in sorted(declared.keys() - listed)]
    return [*new, *(f"gone from Hudi: {name}" for name in sorted(listed - declared.keys()))]


def table_of_verdicts() -> str:
    """The part of the page that is made from the list."""
    parts = []
    for verdict, title in (
        (Verdict.REFUSED, "Refused"),
        (Verdict.WARNED, "Accepted with a warning"),
        (Verdict.SERVED, "Served"),
    ):
        groups: dict[str, list[HudiOption]] = defaultdict(list)
        for option in hudi_options():
            if option.verdict is verdict:
                groups[option.reason].append(option)
        count = sum(map(len, groups.values()))
        parts.append(f"## {title} ({count})\n")
        parts += [_group(reason, groups[reason]) for reason in sorted(groups)]
    return "\n".join(parts)


def page_text(before: str) -> str:
    """The page with its table made anew."""
    return f"{before.partition(BEGIN)[0]}{BEGIN}\n\n{table_of_verdicts()}"


def _group(reason: str, options: list[HudiOption]) -> str:
    shown = []
    for option in sorted(options, key=lambda each: each.name):
        values = [value for value in option.accepted if value]
        fine = f" (accepted: {', '.join(f'`{value}`' for value in values)})" if values else ""
        shown.append(f"`{option.name}`{fine}")
    return f"**{reason[0].upper()}{reason[1:]}:** {', '.join(shown)}\n"


def main(arguments: list[str]) -> int:
    """Compare, or write the page; the exit code says whether list and bundle agree."""
    if "--docs" in arguments:
        PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        print("pyspark is not installed here", file=sys.stderr)
        return 2
    jar = Path(arguments[0]) if arguments else JAR
    found = differences(declared_options(jar, Path(spec.origin).parent / "jars"))
    print("\n".join(found) or "the list has every option of the bundle")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
