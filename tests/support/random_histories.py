"""Runs state machines of random histories, as many and as long as asked for."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

COUNT = "LAKEDEX_HISTORIES"
"""The environment variable that asks for so many histories of each machine."""


def run_histories(machine: type[RuleBasedStateMachine], count: int, steps: int) -> None:
    """Let a machine make histories of some steps each."""
    wanted = settings(
        max_examples=int(os.environ.get(COUNT, count)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=wanted)
