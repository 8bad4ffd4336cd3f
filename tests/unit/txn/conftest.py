"""Tables and processes for tests of transactions."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.support.txn_tables import new_table


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes that start in a moment, as a server has loaded all they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "tests.support.txn_tables"])
    return context


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a metadata table."""
    new_table(tmp_path / "t")
    return tmp_path / "t"
