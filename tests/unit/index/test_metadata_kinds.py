"""Kinds of index in the metadata table: each has the parts that its contract loads by name."""

from __future__ import annotations

from importlib import import_module
from inspect import ismethod, signature

import pytest

from lakedex.errors import InvalidInput
from lakedex.index import registry
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind

KINDS = registry.metadata_kinds()
CREATABLE = [kind for kind in KINDS if kind.is_creatable]
IN_A_TABLE = [kind for kind in KINDS if kind.partition is not None]


def part(kind: MetadataIndexKind, method: str, module: str, function: str = "") -> object:
    """What a method of the kind runs: its own code, or a function of a module of its package."""
    if getattr(type(kind), method) is not getattr(MetadataIndexKind, method):
        return getattr(kind, method)
    package = type(kind).__module__.rpartition(".")[0]
    return getattr(import_module(f"{package}.{module}"), function or method)


def parameters(function: object) -> int:
    return len(signature(function).parameters)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_can_be_verified(kind):
    assert parameters(part(kind, "check", "check", "start")) == 2


@pytest.mark.parametrize("kind", CREATABLE, ids=lambda kind: kind.kind)
def test_a_kind_that_statements_create_defines_extends_and_rebuilds(kind):
    steps = ("define", "extend", "rebuild")
    assert [parameters(part(kind, step, "define")) for step in steps] == [1, 1, 3]


@pytest.mark.parametrize("kind", registry.advising_kinds(), ids=lambda kind: kind.kind)
def test_a_kind_that_is_suggested_estimates_its_size(kind):
    assert parameters(part(kind, "advise", "advice")) == 1
    assert parameters(part(kind, "estimate_size", "advice", "estimate")) == 2


@pytest.mark.parametrize("name", [*registry.kinds_by_name(), registry.default_kind().kind])
def test_a_kind_that_can_be_assumed_says_what_it_would_leave(name):
    (kind,) = [each for each in KINDS if each.kind == name]
    function = part(kind, "what_if", "advice")
    # A function of a module is given the kind as well.
    assert parameters(function) == (2 if ismethod(function) else 3)


@pytest.mark.parametrize("kind", IN_A_TABLE, ids=lambda kind: kind.kind)
def test_full_names_lead_to_the_kind_and_back_to_the_given_name(kind):
    names = [f"{prefix}idx" for prefix in kind.prefixes] or [kind.kind]
    for name in names:
        assert registry.metadata_kind(name) is kind
        assert kind.given_name(name) == ("idx" if kind.is_named else name)
        assert registry.is_named_index(name) is kind.is_named


def test_every_partition_of_the_metadata_table_has_one_kind():
    assert sorted(kind.partition.value for kind in IN_A_TABLE) == sorted(
        each.value for each in Kind
    )


def test_single_entries_are_repaired_by_a_module_of_the_kind():
    repairing = [
        kind for kind in KINDS if type(kind).can_repair is not MetadataIndexKind.can_repair
    ]
    assert [kind.kind for kind in repairing] == ["files", "record_index", "secondary_index"]
    for kind in repairing:
        assert parameters(part(kind, "repair", "check")) == 3


def test_a_partition_of_a_later_release_has_no_kind():
    assert registry.find_metadata_kind("vector_index_idx") is None
    with pytest.raises(InvalidInput, match="no metadata partition"):
        registry.metadata_kind("vector_index_idx")
