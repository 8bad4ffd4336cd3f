"""Curves through a grid of many dimensions: points that are near on the curve are near in all.

Coordinates are columns of whole numbers below 2**bits; a point's place on the curve is one number
of bits times dimensions bits. Everything works on whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakedex.write.layout.ranks import Ints

Places = npt.NDArray[np.uint64]
MOST_DIMENSIONS = 32
_PLACE_BITS = 64
_MOST_BITS = 16


def bits_for(dimensions: int) -> int:
    """How many bits a coordinate may have, so that places fit their type."""
    return min(_MOST_BITS, _PLACE_BITS // dimensions)


def zorder(coordinates: Sequence[Ints | Places], bits: int) -> Places:
    """Places on the Z-order curve: the bits of the coordinates in turn, highest first.

    Example:
        >>> zorder([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], 1).tolist()
        [0, 1, 2, 3]
    """
    axes = [axis.astype(np.uint64) for axis in coordinates]
    places = np.zeros(len(axes[0]), dtype=np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for axis in axes:
            places = (places << one) | ((axis >> np.uint64(bit)) & one)
    return places


def hilbert(coordinates: Sequence[Ints], bits: int) -> Places:
    """Places on the Hilbert curve, whose neighbours differ by one in one coordinate.

    The coordinates are turned by Skilling's transform, so that their bits in turn are the place.

    Example:
        >>> hilbert([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], 1).tolist()
        [0, 1, 2, 3]
    """
    axes = [axis.astype(np.uint64) for axis in coordinates]
    top = 1 << (bits - 1)
    _turn(axes, top)
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    step = top
    while step > 1:
        is_set = (axes[-1] & np.uint64(step)) != 0
        flips = np.where(is_set, flips ^ np.uint64(step - 1), flips)
        step >>= 1
    return zorder([axis ^ flips for axis in axes], bits)


def _turn(axes: list[Places], top: int) -> None:
    """Turn and mirror the cubes inside of each cube, from the largest to the smallest."""
    step = top
    while step > 1:
        below = np.uint64(step - 1)
        for number, axis in enumerate(axes):
            is_set = (axis & np.uint64(step)) != 0
            swapped = (axes[0] ^ axis) & below
            first = np.where(is_set, axes[0] ^ below, axes[0] ^ swapped)
            if number:
                axes[number] = np.where(is_set, axis, axis ^ swapped)
            axes[0] = first
        step >>= 1
