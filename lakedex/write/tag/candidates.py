"""Which base files may hold a key of a write, by their key ranges and bloom filters.

Both stand in footers and may stand in the metadata table. Ranges written by the JVM bound keys in
the order of UTF-16 units, which differs from that of UTF-8 bytes for characters from U+E000 on.
Keys that hold one are asked of every filter.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.format.bloom import BloomFilter, bloom_hashes
from lakedex.format.parquet.footer import ParquetFooter
from lakedex.write.tag.incoming import Incoming
from lakedex.write.tag.places import Positions, mask_of

_FIRST_HASHES = 8
"""A key that a filter lacks passes this many with a chance below one in 200."""
_NO_REMAINDER = 1 << 32
"""More bits than a hash can number, so that positions are the hashes themselves."""
_ODDLY_ORDERED = "[\ue000-\U0010ffff]"


@dataclass(frozen=True, slots=True)
class _SortedKeys:
    """Positions of keys: those that a range can bound, by their bytes, and the others."""

    ordered: Positions
    others: Positions


class KeyQuestions:
    """The keys of a write, ready to be asked of many files."""

    def __init__(self, incoming: Incoming, *, per_partition: bool) -> None:
        """Hash and sort the keys once; keys of one partition only concern its files, if asked."""
        self._keys = incoming.keys
        self._bytes = incoming.keys.cast(pa.binary())
        self._per_partition = per_partition
        self._hashes = np.empty((_FIRST_HASHES, len(self._keys)), dtype=np.uint32)
        for start, found in bloom_hashes(self._keys, _FIRST_HASHES, _NO_REMAINDER):
            self._hashes[:, start : start + found.shape[1]] = found
        self._groups = _sorted_groups(self._bytes, incoming, per_partition=per_partition)

    def may_hold(self, footer: ParquetFooter, partition: str) -> bool:
        """Whether the file may hold one of the keys; a file that says nothing may."""
        asked = self.in_range(partition, footer.min_key, footer.max_key)
        if not len(asked):
            return False
        try:
            bloom = footer.bloom
        except LakedexError:
            # A filter that cannot be read rules nothing out.
            return True
        return bloom is None or self.any_in(bloom, asked)

    def in_range(self, partition: str, low: str | None, high: str | None) -> Positions:
        """The keys that a file of the partition may hold; bounds that are None bound nothing."""
        group = self._groups.get(partition if self._per_partition else "")
        if group is None:
            return np.zeros(0, dtype=np.int64)
        first, last = self._range(group.ordered, low, high)
        return np.concatenate([group.ordered[first:last], group.others])

    def any_in(self, bloom: BloomFilter, asked: Positions) -> bool:
        """Whether a filter may hold one of the keys at the given positions."""
        passed = self._pass_first_hashes(bloom, asked)
        return bool(len(passed) and bloom.contains(self._keys.take(pa.array(passed))).any())

    def _range(self, ordered: Positions, low: str | None, high: str | None) -> tuple[int, int]:
        if low is None or high is None:
            return 0, len(ordered)

        def key_at(number: int) -> bytes:
            return bytes(self._bytes[int(ordered[number])].as_py())

        numbers = range(len(ordered))
        return (
            bisect.bisect_left(numbers, low.encode(), key=key_at),
            bisect.bisect_right(numbers, high.encode(), key=key_at),
        )

    def _pass_first_hashes(self, bloom: BloomFilter, asked: Positions) -> Positions:
        """Those of the keys that some row of the filter does not rule out at once."""
        passed = []
        for bits in bloom.rows:
            pending = asked
            for hashes in self._hashes[: bloom.hash_count]:
                at = hashes[pending] % np.uint32(bloom.bit_count)
                pending = pending[(bits[at >> 3] >> (at & 7).astype(np.uint8)) & 1 == 1]
            passed.append(pending)
        return np.concatenate(passed)


def _sorted_groups(
    keys: pa.Array, incoming: Incoming, *, per_partition: bool
) -> dict[str, _SortedKeys]:
    odd = mask_of(pc.match_substring_regex(incoming.keys, _ODDLY_ORDERED))
    if not per_partition:
        order = pc.sort_indices(keys).to_numpy().astype(np.int64)
        return {"": _split(order, odd)}
    encoded = incoming.partitions.dictionary_encode()
    columns = {"key": keys, "partition": encoded.indices}
    by_both = [("partition", "ascending"), ("key", "ascending")]
    order = pc.sort_indices(pa.table(columns), sort_keys=by_both).to_numpy().astype(np.int64)
    codes = encoded.indices.to_numpy()[order]
    names = encoded.dictionary.to_pylist()
    starts = np.searchsorted(codes, np.arange(len(names) + 1)).tolist()
    return {
        name: _split(order[starts[code] : starts[code + 1]], odd) for code, name in enumerate(names)
    }


def _split(order: Positions, odd: npt.NDArray[np.bool_]) -> _SortedKeys:
    is_odd = odd[order]
    return _SortedKeys(order[~is_odd], order[is_odd])
