"""What a program reads: JSON on standard output and nothing else beside it.

Only ASCII is written: other characters are escaped, so neither the encoding of the stream nor a
terminal can change what is read.
"""

from __future__ import annotations

import json
import sys


def print_json(value: object) -> None:
    """Print one JSON value over several lines."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_json_line(value: object) -> None:
    """Print one JSON value on a line of its own."""
    sys.stdout.write(json_line(value) + "\n")


def json_line(value: object) -> str:
    """One JSON value without line breaks.

    Example:
        >>> json_line({"city": "a"})
        '{"city": "a"}'
    """
    return json.dumps(value, allow_nan=False)
