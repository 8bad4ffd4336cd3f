"""Targets for the binary file formats: HFile, bloom filter, Parquet."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.format.bloom import BloomFilter
from lakedex.format.hfile import Codec, HFileOptions, HFileReader, write_hfile
from lakedex.format.parquet import read_footer, read_parquet_bytes
from lakedex.storage.source import MemorySource
from tests.fuzz.cases import Target
from tests.fuzz.corpus import golden_files
from tests.fuzz.mutators import EXTREMES, mutate, varint

_ASKED = pa.array([b"files", b"", b"__all_partitions__", b"k00", b"\xff" * 9], pa.binary())
_LARGE_BYTES = 50_000
_CHOICE_AT = -8
"""A byte of the zeros at the end of the trailer, which no reader looks at."""
_BLOCK_HEADER = struct.Struct(">8sIIqBII")
_BLOCK_MAGICS = (b"DATABLK*", b"METABLKc", b"IDXROOT2", b"IDXLEAF2", b"FILEINF2")


def read_hfile(data: bytes) -> None:
    """Everything that can be asked of an HFile; of a large one only one thing at a time."""
    reader = HFileReader(MemorySource(data, path="x.hfile"))
    questions: list[Callable[[], object]] = [
        lambda: reader.meta_block("bloomFilter"),
        lambda: reader.lookup(_ASKED),
        lambda: reader.scan_prefixes([b"f", b"", b"k0"]),
        lambda: sum(len(cells) for cells in reader.scan_batches()),
        reader.scan,
    ]
    if len(data) > _LARGE_BYTES:
        questions = [questions[data[_CHOICE_AT] % len(questions)]]
    for question in questions:
        question()


def _cells(count: int, value: bytes) -> tuple[pa.Array, pa.Array]:
    keys = [f"k{number:02}".encode() for number in range(count)]
    return pa.array(keys, pa.binary()), pa.array([value] * count, pa.binary())


def _hfile_seeds() -> list[bytes]:
    own = [
        write_hfile(
            *_cells(count, b"value" * 3),
            meta_blocks={"bloomFilter": b"bloom"},
            options=HFileOptions(block_size=size, codec=codec),
        )
        for count, size, codec in (
            *(
                (2, 64, Codec.NONE),
                (40, 64, Codec.NONE),
                (40, 200, Codec.GZIP),
                (0, 64, Codec.GZIP),
            ),
        )
    ]
    return own + golden_files("*/.hoodie/metadata/*.hfile", "v*", most=3)


def _recoded_block(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """An HFile with one block's content mutated, compressed again, and its sizes made right.

    The new block takes the place of the old one where it fits, so that offsets stay true.
    """
    data = rng.choice(seeds)
    places = [at for magic in _BLOCK_MAGICS for at in _finds(data, magic)]
    if not places:
        return mutate(rng, data, seeds)
    at = rng.choice(places)
    _, on_disk, raw_size, *_rest = _BLOCK_HEADER.unpack_from(data, at)
    start = at + _BLOCK_HEADER.size
    raw = _inflated(data[start : start + on_disk])
    zipped = raw is not None
    raw = mutate(rng, raw if raw is not None else data[start : start + raw_size], seeds)
    raw = rng.choice((raw, raw, raw[:raw_size].ljust(raw_size, b"\0"), bytes(1 << 22)))
    payload = _gzip(raw) if zipped else raw
    return _with_block(data, at, payload, len(raw))


def _with_block(data: bytes, at: int, payload: bytes, raw_size: int) -> bytes:
    """The file with another payload in the block at `at`, and sizes that fit it."""
    magic, on_disk, _, *rest, _ = _BLOCK_HEADER.unpack_from(data, at)
    size = max(on_disk, len(payload))
    with_header = _BLOCK_HEADER.size + len(payload)
    header = _BLOCK_HEADER.pack(magic, size, raw_size, *rest, with_header)
    end = at + _BLOCK_HEADER.size + on_disk
    return data[:at] + header + payload.ljust(size, b"\0") + data[end:]


def _trailer_number(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """An HFile whose trailer message has one number made extreme."""
    data = rng.choice(seeds)
    fields = b"".join(
        varint(number << 3) + varint(rng.choice((*EXTREMES, len(data), len(data) - 4096)))
        for number in rng.sample(range(1, 14), rng.choice((1, 1, 2, 3)))
    )
    start = len(data) - 4096
    length = data[start + 8]
    head = 9 if length < 0x80 else 10
    if head == 10:
        length = length & 0x7F | data[start + 9] << 7
    message = data[start + head : start + head + length] + fields
    body = (data[start : start + 8] + varint(len(message)) + message).ljust(4092, b"\0")
    return data[:start] + body[:4092] + data[-4:]


def _finds(data: bytes, needle: bytes) -> list[int]:
    found = []
    at = data.find(needle)
    while at >= 0 and at + _BLOCK_HEADER.size <= len(data):
        found.append(at)
        at = data.find(needle, at + 1)
    return found


def _inflated(data: bytes) -> bytes | None:
    try:
        return zlib.decompressobj(31).decompress(data, 1 << 20)
    except zlib.error:
        return None


def _gzip(data: bytes) -> bytes:
    return zlib.compress(data, 1, 31)


def _hfile_bombs() -> list[Callable[[], bytes]]:
    def zeros(count: int, size: int) -> Callable[[], bytes]:
        options = HFileOptions(block_size=1 << 20)
        return lambda: write_hfile(*_cells(count, bytes(size)), options=options)

    def bomb(claimed: int) -> Callable[[], bytes]:
        """A block of 1 GiB of zeros in the place of one that took as many bytes on disk."""
        noise = pa.array([Random(1).randbytes(1_100_000)], pa.binary())
        options = HFileOptions(block_size=64)
        return lambda: _with_block(
            write_hfile(pa.array([b"k"]), noise, options=options), 0, _gibibyte_of_zeros(), claimed
        )

    def asked(make: Callable[[], bytes], question: int) -> Callable[[], bytes]:
        def chosen() -> bytes:
            data = bytearray(make())
            data[_CHOICE_AT] = question
            return bytes(data)

        return chosen

    files = [zeros(1, 60 << 20), zeros(30, 3 << 20)]
    files += [bomb(claimed) for claimed in (1 << 20, 1 << 26, 1 << 30, 2**32 - 1)]
    return [asked(make, question) for make in files for question in (1, 2, 3, 4)]


@cache
def _gibibyte_of_zeros() -> bytes:
    """A gzip member of 1 MiB; the same compressed piece over and over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    head = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"
    return head + piece * (1 << 10) + b"\3\0" + struct.pack("<II", 0, 1 << 30)


HFILE = Target(
    "hfile",
    _hfile_seeds,
    read_hfile,
    shapes=(_recoded_block, _recoded_block, _trailer_number),
    extremes=_hfile_bombs,
    shape_share=0.5,
)


def read_bloom(data: bytes) -> None:
    """Decode a filter of the type that the first byte says, and ask it."""
    code = ("SIMPLE", "DYNAMIC_V0", None, "OTHER")[data[0] % 4] if data else None
    bloom = BloomFilter.decode(data[1:], type_code=code, path="x.bloom")
    bloom.contains(pa.array(["k1", "", None, "k2" * 100]))
    bloom.encode()


@cache
def _bloom_raw() -> list[bytes]:
    simple, dynamic = BloomFilter.create_simple(60, 0.01), BloomFilter.create_dynamic(10, 0.1, 40)
    for bloom in (simple, dynamic):
        bloom.add(pa.array([f"k{number}" for number in range(25)]))
    return [simple.to_bytes(), dynamic.to_bytes()]


def _bloom_seeds() -> list[bytes]:
    return [bytes([at]) + base64.b64encode(raw) for at, raw in enumerate(_bloom_raw())]


def _bloom_inside(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    """Damage behind the base64, which alone would refuse most of it."""
    raw = mutate(rng, rng.choice(_bloom_raw()), _bloom_raw())
    return bytes([rng.choice((0, 0, 1, 1, 2, 3))]) + base64.b64encode(raw)


def _bloom_extremes() -> list[Callable[[], bytes]]:
    def head(hashes: int, bits: int, size: int) -> Callable[[], bytes]:
        raw = struct.pack(">iiBi", -1, hashes, 1, bits) + bytes(size)
        return lambda: b"\0" + base64.b64encode(raw)

    sizes = [(2**31 - 1, 8, 1), (1, 2**31 - 1, 1), (1000, 1 << 23, 1 << 20), (-1, -1, 0), (0, 0, 0)]
    return [head(*size) for size in sizes]


BLOOM = Target(
    "bloom",
    _bloom_seeds,
    read_bloom,
    shapes=(_bloom_inside,),
    extremes=_bloom_extremes,
    shape_share=0.7,
)


def parquet_footer(data: bytes) -> None:
    """The footer and all that is read out of it."""
    footer = read_footer(MemorySource(data, path="x.parquet"))
    _ = footer.min_key, footer.max_key, footer.avro_schema_text, footer.row_count
    _ = footer.bloom


def parquet_rows(data: bytes) -> None:
    """All rows."""
    read_parquet_bytes(data, path="x.parquet")


def _small_parquet(**options: object) -> bytes:
    sink = io.BytesIO()
    table = pa.table(
        {
            "k": pa.array(["a", "b", None, "a"] * 8),
            "n": pa.array(np.arange(32)),
            "l": pa.array([[1, 2], [], None, [3]] * 8),
            "d": pa.array([1, 2, None, 4] * 8, pa.decimal128(12, 2)),
        }
    )
    pq.write_table(table, sink, store_schema=False, **options)
    return sink.getvalue()


def _parquet_seeds() -> list[bytes]:
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": ["a", "b"]}), sink, store_schema=False, write_statistics=False)
    return [
        sink.getvalue(),
        _small_parquet(compression="none"),
        _small_parquet(compression="gzip", data_page_version="2.0"),
        _small_parquet(compression="none", use_dictionary=False),
        _small_parquet(
            compression="zstd", use_dictionary=False, column_encoding={"n": "DELTA_BINARY_PACKED"}
        ),
        *golden_files("*.parquet", "v*", most=1, max_bytes=500_000),
    ]


def _in_footer(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """The footer mutated and its length made right."""
    data = rng.choice(seeds)
    length = int.from_bytes(data[-8:-4], "little")
    footer = mutate(rng, data[-8 - length : -8], seeds)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _in_pages(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A few bytes of the pages changed, the footer left whole."""
    data = rng.choice(seeds)
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    pages = mutate(rng, data[4:end], seeds)[: end - 4].ljust(end - 4, b"\0")
    return data[:4] + pages + data[end:]


def _in_page_header(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One number in the header of a page made extreme: its kind, its sizes, its count of values."""
    data = rng.choice(seeds)
    metadata = pq.read_metadata(io.BytesIO(data))
    if not metadata.num_row_groups or not metadata.num_columns:
        return mutate(rng, data, seeds)
    chunk = metadata.row_group(0).column(rng.randrange(metadata.num_columns))
    at = rng.choice(
        (chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
    )
    places = _header_numbers(data, at)
    start, end = rng.choice(places)
    number = rng.choice((*EXTREMES, 1 << 28, 1 << 29, 1 << 30))
    return data[:start] + varint((number << 1) ^ (number >> 63)) + data[end:]


def _header_numbers(data: bytes, at: int) -> list[tuple[int, int]]:
    """Where the first numbers of a page header lie: each follows a byte that says `int32`."""
    found = []
    while len(found) < 6 and at < len(data) - 12:
        if data[at] in (0x15, 0x2C, 0x5C, 0x4C, 0x3C):
            if data[at] == 0x15:
                end = at + 1
                while data[end] & 0x80 and end < len(data) - 1:
                    end += 1
                found.append((at + 1, end + 1))
                at = end
        elif found:
            break
        at += 1
    return found or [(at, at)]


def _parquet_bombs() -> list[Callable[[], bytes]]:
    def rows(count: int, codec: str) -> Callable[[], bytes]:
        """Millions of equal numbers: a few bytes each row group."""
        table = pa.table({"n": np.zeros(1 << 20, np.int64)})
        return lambda: _repeated_table(table, count >> 20, codec)

    def texts(count: int, size: int) -> Callable[[], bytes]:
        """One long text in the dictionary, and many rows that point to it."""
        table = pa.table({"s": pa.array(["x" * size]).dictionary_encode().take([0] * count)})
        return lambda: _repeated_table(table, 1, "none")

    return [
        *(
            rows(1 << 20, "none"),
            rows(1 << 23, "gzip"),
            rows(1 << 27, "zstd"),
            rows(1 << 27, "none"),
        ),
        *(texts(1000, 1 << 10), texts(100_000, 1 << 16), texts(1 << 20, 1 << 20)),
    ]


def _repeated_table(table: pa.Table, times: int, codec: str) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, compression=codec, store_schema=False) as writer:
        for _ in range(times):
            writer.write_table(table)
    return sink.getvalue()


FOOTER = Target("parquet-footer", _parquet_seeds, parquet_footer, shapes=(_in_footer,))
PARQUET = Target(
    "parquet-rows",
    _parquet_seeds,
    parquet_rows,
    shapes=(_in_footer, _in_pages, _in_page_header),
    extremes=_parquet_bombs,
    shape_share=0.6,
)

TARGETS = (HFILE, BLOOM, FOOTER, PARQUET)
