"""How kinds of other packages are found, and which are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.index.registry import file_index_kinds
from tests.support.index_kinds import guide_code, user_kind

PROGRAM = """
import lakedex
from lakedex.index.registry import file_index_kinds, kinds
print(sorted(file_index_kinds()), "email_domain" in [each.kind for each in kinds()])
"""


def test_entry_points_are_loaded_and_a_broken_one_is_named(tmp_path):
    (tmp_path / "email_domains.py").write_text(guide_code(), encoding="utf-8")
    info = tmp_path / "email_domains-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: email_domains\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[lakedex.index_kinds]\n"
        "broken = email_domains:nothing\n"
        "email_domain = email_domains:EmailDomainKind\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    names, is_listed = done.stdout.strip().rsplit(" ", 1)
    assert "'email_domain'" in names
    assert "'bitmap'" in names
    assert is_listed == "True"
    assert "the index kind broken cannot be loaded" in done.stderr


def test_a_kind_may_be_registered_again_but_not_in_the_place_of_another():
    kind = user_kind()
    assert lakedex.indexes.register(type(kind)()).kind == "email_domain"
    assert type(file_index_kinds()["email_domain"]).__name__ == "EmailDomainKind"

    class Impostor(type(kind)):  # type: ignore[misc]
        pass

    with pytest.raises(
        InvalidInput, match=r"'email_domain' is registered already, by email_domains"
    ):
        lakedex.indexes.register(Impostor())
    for name in ("Bad Name", "record_index", "files", "expr", "", 7):
        wrong = type("Wrong", (type(kind),), {"kind": name})
        with pytest.raises(InvalidInput, match="is no name for an index kind"):
            lakedex.indexes.register(wrong())
    for version in (0, -1, "1"):
        wrong = type("Wrong", (type(kind),), {"kind": "other", "version": version})
        with pytest.raises(InvalidInput, match="the version of the index kind other is"):
            lakedex.indexes.register(wrong())
    for nothing in (None, "bitmap", type(kind)):
        with pytest.raises(InvalidInput, match="an index kind is an instance of a subclass of"):
            lakedex.indexes.register(nothing)
