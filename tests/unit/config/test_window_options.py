"""A windowed record index is refused by name: when a table is created and on each write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakedex.config import TableConfig
from lakedex.config.option_check import WINDOW_OPTIONS
from lakedex.config.write_options import WriteOptions
from lakedex.errors import UnsupportedFeature
from lakedex.table.spec import TableSpec


@pytest.mark.parametrize("name", WINDOW_OPTIONS)
def test_a_window_is_refused(name: str) -> None:
    config = TableConfig.from_properties(
        {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties"
    )
    with pytest.raises(UnsupportedFeature, match=name):
        WriteOptions.resolve(config, {}, {name: "7"})
    spec = TableSpec("t", pa.schema([("id", pa.string())]), "id", properties={name: "7"})
    with pytest.raises(UnsupportedFeature, match=name):
        spec.resolve()
