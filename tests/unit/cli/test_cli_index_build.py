"""`lakedex index build`: a new index, one to go on with, and what is wrong."""

from __future__ import annotations

import json

from lakedex.services.indexing.claims import put_down
from tests.support.index_builds import start
from tests.support.secondary import Trips, pairs

FIRST = [("a1", 1, "ann", "oslo"), ("b1", 1, "bob", "rio")]


def test_an_index_is_built_and_one_that_was_put_down_is_finished(tmp_path, lakedex):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    said = lakedex("index", "build", trips.path, "idx_rider", "--on", "rider")
    assert said.stdout == "built secondary_index_idx_rider\n"
    assert trips.entries("rider") == pairs({"a1": "ann", "b1": "bob"})
    put_down(start(trips.writer, "city"))
    assert "building" in lakedex("indexes", trips.path).stdout
    again = lakedex("index", "build", trips.path, "idx_city", "--on", "rider")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "in the making already" in again.stderr
    done = json.loads(lakedex("index", "build", trips.path, "idx_city", "--json").stdout)
    assert done["indexes"] == ["secondary_index_idx_city"]
    assert trips.entries("city") == pairs({"a1": "oslo", "b1": "rio"})
    trips.assert_whole()
    wrong = lakedex("index", "build", trips.path, "idx_city", "--on", "city")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "already" in wrong.stderr


def test_a_bitmap_index_is_built_and_a_name_alone_is_one_to_go_on_with(tmp_path, lakedex):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    bitmap = ("idx_bits", "--on", "rider", "--using", "bitmap")
    said = lakedex("index", "build", trips.path, *bitmap, "--json")
    assert json.loads(said.stdout) == {"instant": None, "indexes": ["bitmap_index_idx_bits"]}
    assert trips.table().verify(["bitmap_index_idx_bits"]).ok
    none = lakedex("index", "build", trips.path, "idx_none")
    assert (none.exit_code, none.stdout) == (2, "")
    assert "name its column with --on" in none.stderr
