"""Deterministic damage: every mutator takes a random number generator and bytes, and gives bytes.

Text formats are mutated by tokens as well, since a flipped bit alone seldom leaves JSON or SQL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

Mutator: TypeAlias = Callable[[Random, bytes, Sequence[bytes]], bytes]

EXTREMES = (
    *(0, 1, -1, 2, 4, 7, 8, 63, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536),
    *(2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**53, 2**62),
    *(2**63 - 1, 2**63, -(2**63), 2**64 - 1),
)
"""Numbers that lengths, counts and offsets must not be trusted with."""

HOSTILE_TEXT = (
    *(b"..", b"../", b"../../../../etc/passwd", b"/etc/passwd", b"file:///etc/passwd"),
    *(b"s3://other/x", b"C:\\x", b"\0", b"", b".", b"./", b"//", b"%2e%2e%2f", b"a/../../b"),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"\\u0000", b"\\uD800", b"NaN", b"Infinity", b"1e999"),
    *(b"-1", b"99999999999999999999999999", b"null", b"true", b"[]", b"{}", b'""', b"\xc3"),
)
"""Names and values that must not lead out of a table or into a crash."""

MAGICS = (
    *(b"#HUDI#", b"DATABLK*", b"METABLKc", b"IDXROOT2", b"IDXLEAF2", b"FILEINF2", b'TRABLK"$'),
    *(b"PAR1", b"Obj\x01", b"\x1f\x8b\x08"),
)


def mutate(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to four mutations, one after the other; one is the most common."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(_MUTATORS)(rng, data, others)
    return data


def varint(number: int) -> bytes:
    """A number of up to 64 bits as seven bits a byte, lowest first."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """A signed number as Avro writes it."""
    return varint((number << 1) ^ (number >> 63))


def _place(rng: Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _span(rng: Random, data: bytes) -> tuple[int, int]:
    """A part of the bytes, more often a short one."""
    start = _place(rng, data)
    longest = len(data) - start
    length = rng.randrange(longest + 1) if rng.random() < 0.3 else rng.randrange(17)
    return start, start + min(length, longest)


def _over(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def truncate(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Only the first bytes; sometimes only the last."""
    at = _place(rng, data)
    return data[:at] if rng.random() < 0.8 else data[at:]


def flip_bits(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """One to eight flipped bits anywhere."""
    out = bytearray(data)
    for _flip in range(rng.choice((1, 1, 1, 2, 4, 8)) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def set_bytes(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A few bytes set to values at the edges."""
    out = bytearray(data)
    for _set in range(rng.choice((1, 1, 2, 4)) if out else 0):
        out[rng.randrange(len(out))] = rng.choice(
            (0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256))
        )
    return bytes(out)


def fill(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A part overwritten with one byte."""
    start, end = _span(rng, data)
    return data[:start] + bytes([rng.choice((0, 0xFF, 0x80, 0x20))]) * (end - start) + data[end:]


def remove(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A part left out."""
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def duplicate(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A part twice, or many times."""
    start, end = _span(rng, data)
    times = rng.choice((2, 2, 3, 17, min(1000, 1 + 100_000 // (end - start + 1))))
    return data[:start] + data[start:end] * times + data[end:]


def insert(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Random bytes in between."""
    at = _place(rng, data)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 4, 8, 64))) + data[at:]


def splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A part of another seed put in, or its end put on."""
    other = rng.choice(others) if others else data
    start, end = _span(rng, other)
    at = _place(rng, data)
    if rng.random() < 0.5:
        return data[:at] + other[start:]
    return data[:at] + other[start:end] + data[at + end - start :]


def set_number(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A fixed-width number of either byte order overwritten with an extreme."""
    code, bits = rng.choice((("B", 8), ("H", 16), ("I", 32), ("I", 32), ("Q", 64), ("Q", 64)))
    number = rng.choice((*EXTREMES, len(data), len(data) - 1, len(data) + 1)) % 2**bits
    return _over(data, _place(rng, data), struct.pack(rng.choice("<>") + code, number))


def set_varint(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A varint overwritten or put in between, also one that does not end."""
    number = rng.choice((*EXTREMES, len(data)))
    new = rng.choice((varint(number), zigzag(number), b"\xff" * 11, b"\x80" * 9 + b"\x02"))
    at = _place(rng, data)
    return _over(data, at, new) if rng.random() < 0.5 else data[:at] + new + data[at + 1 :]


def change_length(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A field that looks like a length, as it is at most the size, made a little or very wrong."""
    width = rng.choice((4, 4, 8))
    order = rng.choice(("big", "big", "little"))
    start = _place(rng, data)
    for at in range(start, max(start, min(len(data) - width, start + 400))):
        value = int.from_bytes(data[at : at + width], order)
        if 0 < value <= len(data):
            wrong = rng.choice((value + 1, value - 1, value + 4, value * 2, *EXTREMES[-12:]))
            return _over(data, at, (wrong % 2 ** (8 * width)).to_bytes(width, order))
    return set_number(rng, data, ())


def put_magic(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """The magic of some format, where none belongs, or over and over."""
    at = _place(rng, data)
    return data[:at] + rng.choice(MAGICS) * rng.choice((1, 1, 2, 500)) + data[at:]


def put_hostile_text(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A hostile name over or between the bytes."""
    at = _place(rng, data)
    new = rng.choice(HOSTILE_TEXT)
    return _over(data, at, new) if rng.random() < 0.5 else data[:at] + new + data[at:]


def swap_token(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One word, number or string of a text replaced by another or by a hostile one."""
    tokens = _tokens(data)
    if not tokens:
        return flip_bits(rng, data, others)
    start, end = rng.choice(tokens)
    pool = _tokens(data) if rng.random() < 0.5 else []
    if pool:
        begin, stop = rng.choice(pool)
        new = data[begin:stop]
    else:
        new = rng.choice((*HOSTILE_TEXT, str(rng.choice(EXTREMES)).encode()))
    return data[:start] + new + data[end:]


def _tokens(data: bytes) -> list[tuple[int, int]]:
    """Where runs of letters and digits lie in the first bytes."""
    found: list[tuple[int, int]] = []
    start: int | None = None
    for at, byte in enumerate(data[:4096]):
        word = 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte in b"_.-"
        if word and start is None:
            start = at
        elif not word and start is not None:
            found.append((start, at))
            start = None
    return found


_MUTATORS: tuple[Mutator, ...] = (
    *(truncate, flip_bits, flip_bits, flip_bits, set_bytes, set_bytes, fill, remove, duplicate),
    *(insert, splice, set_number, set_number, set_varint, set_varint, change_length),
    *(change_length, put_magic, put_hostile_text, swap_token),
)
