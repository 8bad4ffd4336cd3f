"""The code of the README and of other pages, by the heading that it stands under."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def python_blocks(heading: str, page: Path = README) -> list[str]:
    """The Python blocks of a section."""
    _, _, rest = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    section = rest.partition("\n## ")[0]
    fenced = section.split("```")[1::2]
    return [text.removeprefix("python\n") for text in fenced if text.startswith("python\n")]
