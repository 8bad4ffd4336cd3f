"""Real Hudi judges merge-on-read tables that lakedex wrote, of every shape, and writes them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.history_judging import judge_history, shapes_of, written_ahead
from tests.support.write_shapes import Shape


@pytest.fixture(scope="module")
def written(request, tmp_path_factory) -> Iterator[Callable[[Shape], Path]]:
    """`written(shape)` is the folder of a table that lakedex wrote."""
    chosen = [item for item in request.session.items if item.path == request.path]
    shapes = [item.callspec.params["shape"] for item in chosen]
    with written_ahead(shapes, tmp_path_factory.mktemp("judged")) as ready:
        yield ready


@pytest.mark.parametrize("shape", shapes_of("mor"), ids=str)
def test_hudi_reads_writes_and_validates_what_lakedex_wrote(shape, written, spark, tmp_path):
    # cases B10, B20, B22, B23, B24, B27, B28, B32, B72
    judge_history(shape, str(written(shape)), spark, tmp_path)
