"""Index kinds for tests: one of a user, as the documentation has it, and all built-in ones."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import lakedex
from lakedex.indexes import FileIndexKind

GUIDE = Path(__file__).parents[2] / "docs" / "write-your-own-index.md"
USER_MODULE = "email_domains"


@dataclass(frozen=True)
class KindCase:
    """How an index of a kind is made on the table of `tests/unit/services/test_index_kind_life`."""

    kind: str
    """The kind, as steps of a plan report it."""
    name: str
    on: str
    using: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[str, ...] = ()
    """Predicates that the index answers, each true for few of the files."""
    beside: bool = False
    """Whether its entries are files of lakedex's own."""

    def __str__(self) -> str:
        return self.name if self.using in ("", "secondary_index") else self.using


_BY_ADDRESS = ("email = 'u7@d7.org'", "email LIKE 'u7@%'")
_ALL = (
    KindCase(
        "email_domain",
        "by_domain",
        "email",
        "email_domain",
        {"fold_case": "true"},
        ("email LIKE '%@d7.org'", "email IN ('x@D7.ORG', 'y@d9.org')", "email = 'u7@d7.org'"),
        beside=True,
    ),
    KindCase(
        "ngram",
        "grams",
        "email",
        "ngram",
        {"n": "3"},
        ("email LIKE '%7@d7%'", "email ILIKE '%@D9.%'", "email RLIKE 'u[0-9]@d5.org'"),
        beside=True,
    ),
    KindCase("bitmap", "values", "email", "bitmap", {}, _BY_ADDRESS, beside=True),
    KindCase("secondary_index", "by_email", "email", "secondary_index", {}, _BY_ADDRESS[:1]),
    KindCase(
        "expression_index", "shouted", "upper(email)", predicates=("upper(email) = 'U9@D9.ORG'",)
    ),
    KindCase(
        "expression_index",
        "filtered",
        "lower(email)",
        "bloom_filters",
        {},
        ("lower(email) = 'u7@d7.org'",),
    ),
    KindCase("record_index", "record_index", "id", "", {}, ("id = 'k007'", "id IN ('k001', 'x')")),
    KindCase(
        "record_index",
        "record_index",
        "id",
        "record_index",
        {"isPartitioned": "true"},
        ("id = 'k007' AND p = 'p1'",),
    ),
    KindCase("column_stats", "column_stats", "n", "", {}, ("n = 7", "n BETWEEN 20 AND 21")),
    KindCase("bloom_filters", "bloom_filters", "id", "", {}, ("id = 'k007'",)),
)

# A test removes the kind `ngram` from a copy of the package.
CASES = tuple(
    each
    for each in _ALL
    if each.kind != "ngram" or importlib.util.find_spec("lakedex.index.kinds.ngram") is not None
)


def guide_code() -> str:
    """The module of the guide."""
    code = re.search(r"```python\n(\"\"\".*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    return code[1]


@cache
def user_kind() -> FileIndexKind:
    """The kind of the guide, from a module outside of the package; it is registered."""
    folder = Path(tempfile.mkdtemp())
    (folder / f"{USER_MODULE}.py").write_text(guide_code(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(USER_MODULE, folder / f"{USER_MODULE}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[USER_MODULE] = module
    spec.loader.exec_module(module)
    kind: FileIndexKind = lakedex.indexes.register(module.EmailDomainKind())
    return kind
