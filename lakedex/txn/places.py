"""Where a transaction keeps what is no part of the table: below `.hoodie`, by instant time."""

from __future__ import annotations

from typing import Final

HEARTBEATS: Final = ".hoodie/.heartbeat"
MARKERS: Final = ".hoodie/.temp"
WRITERS: Final = ".hoodie/.lakedex/writers"
SPILL: Final = ".hoodie/.lakedex/spill"
CLOCK: Final = ".hoodie/.lakedex/clock"


def heartbeat_path(instant: str) -> str:
    """The file whose modification time says that the writer of an instant lives."""
    return f"{HEARTBEATS}/{instant}"


def writer_path(instant: str) -> str:
    """The file that names the process that writes an instant."""
    return f"{WRITERS}/{instant}.json"


def marker_folder(instant: str) -> str:
    """The folder of an instant's markers."""
    return f"{MARKERS}/{instant}"


def spill_folder(instant: str) -> str:
    """The folder of an instant's spill files.

    Example:
        >>> spill_folder("20261115183005287")
        '.hoodie/.lakedex/spill/20261115183005287'
    """
    return f"{SPILL}/{instant}"
