"""Which option names there are; a misspelled one is refused with the nearest right name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from lakedex.config.ignored_options import IGNORED, is_ignored
from lakedex.config.restated_options import RESTATED, is_timebased
from lakedex.config.write_option_names import OBEYED
from lakedex.errors import InvalidInput

CONFLICT_RETRIES = "hoodie.write.num.retries.on.conflict.failures"
_PREFIXES = ("hoodie.", "lakedex.")
_CUTOFF = 0.6


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as text; true, false and numbers may be given as such.

    Example:
        >>> option_texts({"hoodie.metadata.enable": True, "hoodie.keep.min.commits": 20})
        {'hoodie.metadata.enable': 'true', 'hoodie.keep.min.commits': '20'}

    Raises:
        InvalidInput: naming an option whose value is something else.
    """
    texts: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, bool):
            texts[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            texts[name] = str(value)
        else:
            raise InvalidInput(f"option {name!r} must be text, not {type(value).__name__}")
    return texts


def check_option_names(names: Iterable[str], *, also: Collection[str] = ()) -> None:
    """Refuse names that are no option of a write; `also` are names that are fine here.

    Example:
        >>> check_option_names(["hoodie.index.typ"])
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: no option is called 'hoodie.index.typ'; ...

    Raises:
        InvalidInput: naming the unknown option and the nearest one that exists.
    """
    for name in names:
        if not is_known(name) and name not in also:
            raise InvalidInput(f"no option is called {name[:200]!r}{_advice(name, also)}")


def is_known(name: str) -> bool:
    """Whether a write obeys, compares or knowingly ignores the option."""
    return name in _own_names() or is_ignored(name) or is_timebased(name)


def is_write_option(name: str) -> bool:
    """Whether a write obeys the option."""
    return any(name in option.names for option in OBEYED) or name == CONFLICT_RETRIES


@cache
def _own_names() -> frozenset[str]:
    return RESTATED | {name for option in OBEYED for name in option.names}


def _advice(name: str, also: Collection[str]) -> str:
    if not name.startswith(_PREFIXES):
        return f"; options start with {_PREFIXES[0]!r}"
    known = sorted(_own_names() | IGNORED | set(also))
    near = difflib.get_close_matches(name[:200], known, n=1, cutoff=_CUTOFF)
    return f"; did you mean {near[0]!r}?" if near else ""
