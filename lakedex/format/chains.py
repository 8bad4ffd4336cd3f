"""Finds the items of a chain, in which the start of an item is known from the previous item only.

Walking such a chain item by item is slow. Instead many walkers start at guessed positions and move
in lockstep, as vectors. A guess is *proved* if the chain before it reaches exactly that position:
the chain from the first item is right by construction, and so is every chain that a right chain
reaches. A guess that no chain reaches is dropped, and the chain before it continues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Step = Callable[[Positions], Positions]
StepOne = Callable[[int], int]

_FEW_ITEMS = 64
_SHORT_CHAIN = 1024  # for shorter chains the guesses cost more than they save
_SAMPLE_ITEMS = 16
_MOST_WINDOWS = 2048
_MOST_CELLS = 1 << 18
_PROBE_STEPS = 4
_GUESSES_PER_WINDOW = 4


@dataclass(frozen=True, slots=True)
class ChainRules:
    """The step from an item to the next one.

    `step` maps the starts of items (all below `end`) to their ends, or to -1 if no item can start
    there. `step_one` does the same for one item.
    """

    step: Step
    end: int
    step_one: StepOne


def walk_chain(rules: ChainRules, first: int, count: int) -> Positions:
    r"""The `count` starts of the items from `first` on, and the end of the last item.

    These are `count + 1` numbers. A broken chain gives fewer; the last one is an invalid start.

    Example:
        >>> data = b"\x02ab\x00\x01c"
        >>> rules = ChainRules(lambda at: at, 6, lambda at: at + 1 + data[at])
        >>> walk_chain(rules, 0, 3).tolist()
        [0, 3, 4, 6]
    """
    parts: list[Positions] = []
    at, left = first, count
    while True:
        if left < _SHORT_CHAIN:
            return _joined(parts, _walk_alone(rules, at, left))
        found, whole = _walk_together(rules, at, left)
        if whole or len(found) > left:
            return _joined(parts, found[: left + 1])
        parts.append(found[:-1])
        at, left = int(found[-1]), left - (len(found) - 1)
        if len(found) < left // _SAMPLE_ITEMS:
            return _joined(parts, _walk_alone(rules, at, left))


def _joined(parts: list[Positions], last: Positions) -> Positions:
    return np.concatenate([*parts, last]) if parts else last


def _walk_alone(rules: ChainRules, at: int, count: int) -> Positions:
    """Walk one item after the other, for few items and if guesses fail."""
    positions = [at]
    for _ in range(count):
        if at >= rules.end:
            break
        following = rules.step_one(at)
        if not at < following <= rules.end:
            break
        at = following
        positions.append(at)
    return np.array(positions, dtype=np.int64)


def _walk_together(rules: ChainRules, at: int, count: int) -> tuple[Positions, bool]:
    """Walk from guessed starts; return the proved positions and whether the chain ended."""
    sample = _walk_alone(rules, at, _SAMPLE_ITEMS)
    if len(sample) <= _SAMPLE_ITEMS:
        return sample, True
    width = 2 * int(np.diff(sample).max()) + 16
    windows = max(1, min(count // 32, _MOST_WINDOWS, _MOST_CELLS // width))
    targets = np.linspace(int(sample[-1]), rules.end, windows, endpoint=False).astype(np.int64)
    guesses = _guesses(rules, targets, width)
    starts = np.concatenate([sample[-1:], guesses[guesses > sample[-1]]])
    runners = _Runners(rules, starts)
    runners.run(4 * (count // windows + 1) + _FEW_ITEMS)
    found, whole = runners.proved()
    return np.concatenate([sample[:-1], found]), whole


def _guesses(rules: ChainRules, targets: Positions, width: int) -> Positions:
    """Likely item starts: positions at which walkers from a window after each target meet.

    A walker from a wrong byte soon reaches bytes with which no item can start, or joins the right
    chain. The positions that remain after a few steps are tried, a few for each window.
    """
    cells = (targets[:, None] + np.arange(width)).ravel()
    window = np.repeat(np.arange(len(targets)), width)
    for _ in range(_PROBE_STEPS):
        keep = cells < rules.end
        cells, window = cells[keep], window[keep]
        following = rules.step(cells)
        keep = (following > cells) & (following < rules.end)
        cells, window = following[keep], window[keep]
    landed, at = np.unique(cells, return_index=True)
    window = window[at]
    order = np.lexsort((landed, window))
    landed, window = landed[order], window[order]
    rank = np.arange(len(window)) - np.searchsorted(window, window)
    return np.sort(landed[rank < _GUESSES_PER_WINDOW])


class _Runners:
    """Walkers that move in lockstep, each until it reaches the start of another."""

    def __init__(self, rules: ChainRules, starts: Positions) -> None:
        self._rules = rules
        self._starts = starts
        self._limits = np.append(starts, rules.end)
        self._goal = np.full(len(starts), -1, dtype=np.int64)
        self._broken = np.zeros(len(starts), dtype=np.bool_)
        self._at = starts.copy()
        self._trail: list[tuple[Positions, Positions]] = []

    def run(self, most_steps: int) -> None:
        """Step until every walker has reached a start, failed, or made `most_steps` steps."""
        runners = np.arange(len(self._starts))
        at = self._starts
        limits = self._limits[runners + 1]
        for _ in range(most_steps):
            if not len(runners):
                return
            self._trail.append((runners, at))
            following = self._rules.step(at)
            good = (following > at) & (following <= self._rules.end)
            if not good.all():
                self._broken[runners[~good]] = True
                runners, following, limits = runners[good], following[good], limits[good]
            self._at[runners] = following
            running = following < limits
            if not running.all():
                running, limits = self._land(runners, following, limits)
            runners, at, limits = runners[running], following[running], limits[running]

    def _land(
        self, runners: Positions, at: Positions, limits: Positions
    ) -> tuple[npt.NDArray[np.bool_], Positions]:
        """Record walkers that reached a start; give those that passed one the next as limit."""
        arrived = np.flatnonzero(at >= limits)
        target = np.searchsorted(self._limits, at[arrived])
        limits = limits.copy()
        limits[arrived] = self._limits[target]
        landed = self._limits[target] == at[arrived]
        self._goal[runners[arrived[landed]]] = target[landed]
        running = np.ones(len(runners), dtype=np.bool_)
        running[arrived[landed]] = False
        return running, limits

    def proved(self) -> tuple[Positions, bool]:
        """The positions of the chain from the first start, and whether it ended there."""
        goals = self._goal.tolist()
        on_path = np.zeros(len(goals), dtype=np.bool_)
        current = 0
        while True:
            on_path[current] = True
            if not 0 <= goals[current] < len(goals):
                break
            current = goals[current]
        steps = [at[on_path[runners]] for runners, at in self._trail]
        found = np.sort(np.concatenate(steps))
        whole = bool(goals[current] == len(goals) or self._broken[current])
        if self._broken[current]:
            return found, True
        return np.append(found, self._at[current]), whole
