"""Names in schemas that no UTF-8 text can hold: JSON can escape one half of a character."""

from __future__ import annotations

import pytest

from lakedex.errors import CorruptFile
from lakedex.schema import parse_avro_schema, parse_history

HALF = "\\ud800"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"type":"record","name":"r","fields":[{{"name":"{HALF}","type":"int"}}]}}',
        f'{{"type":"enum","name":"e","symbols":["A","{HALF}"]}}',
    ],
)
def test_half_a_character_in_an_avro_name_is_refused(text):
    with pytest.raises(CorruptFile, match=r"x\.log at offset 0"):
        parse_avro_schema(text, path="x.log")


def test_half_a_character_in_a_schema_history_is_refused():
    field = f'{{"id":0,"name":"{HALF}","type":"int"}}'
    with pytest.raises(CorruptFile, match="a field with a name"):
        parse_history(f'{{"version_id":0,"type":"record","fields":[{field}]}}', path="x")
