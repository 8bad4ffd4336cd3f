"""Texts that are nested as deep as nobody nests them."""

from __future__ import annotations

from collections.abc import Callable

DEPTHS = (65, 500, 1_001, 20_000, 300_000)


def deep_json() -> list[Callable[[], bytes]]:
    """Deep lists and objects, closed and not."""
    found: list[Callable[[], bytes]] = []
    for depth in DEPTHS:
        found += [
            lambda depth=depth: b"[" * depth + b"]" * depth,
            lambda depth=depth: b"[" * depth,
            lambda depth=depth: b'{"a":' * depth + b"1" + b"}" * depth,
        ]
    found += [lambda: b"9" * 200_000, lambda: b'{"a":' + b"9" * 200_000 + b"}", lambda: b'"' * 99]
    return found
