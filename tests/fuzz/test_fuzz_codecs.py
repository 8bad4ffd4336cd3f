"""Every codec against hostile bytes: only a `LakedexError` may come out.

Each case runs in a process held to 512 MiB and 5 s. `LAKEDEX_FUZZ_CASES` asks for more mutations
than the 2,000 of a normal run, `LAKEDEX_FUZZ_SEED` for others.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.harness import fuzz
from tests.fuzz.targets.registry import TARGET_NAMES, share_of

CASES = int(os.environ.get("LAKEDEX_FUZZ_CASES", "2000"))
SEED = int(os.environ.get("LAKEDEX_FUZZ_SEED", "1"))


@pytest.mark.fuzz
@pytest.mark.parametrize("target", TARGET_NAMES)
def test_hostile_bytes_give_a_result_or_a_lakedex_error(target: str) -> None:
    outcome = fuzz(target, seed=SEED, mutated=CASES)
    print(f"{target}: {outcome.cases} cases in {outcome.seconds:.1f} s, slowest {outcome.slowest}")
    assert outcome.cases >= CASES * share_of(target)
    assert not outcome.failures, "\n".join(map(str, outcome.failures))
