"""Every option name, and what happens to it: served, accepted with a warning, or refused.

`hudi_options.tsv` lists all names of Hudi 1.2.0 and those of older releases that scripts still
use, one line each, with tabs between the columns:

    name      the option, or a family of options such as `hoodie.streamer.*`
    verdict   served, warned or refused
    use       read, write or both: who reads the option
    accepted  of an option that is not served: the values for what happens anyway, with
              commas; they are neither refused nor warned of
    declared  the class of Hudi that declares it; empty for names outside of Hudi's Spark bundle
    reason    why it is not served, or how it is

`scripts/hudi_options.py` compares the names with a Hudi bundle. An option that is only for the
other use (a write option given to a reader) has no effect there, and a warning says so. A name
that is not in the list is an error with the nearest name that exists; only properties of a table
and settings of a session may have names of their own, as long as they are no misspelling.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib import resources
from typing import Final

from lakedex.config.option_values import TextOption
from lakedex.config.restated_options import RESTATED, check_restated
from lakedex.config.table_config import TableConfig
from lakedex.config.write_option_names import COMMIT_NOTES, OBEYED
from lakedex.errors import InvalidInput, UnsupportedFeature

log = logging.getLogger("lakedex")

CONFLICT_RETRIES: Final = "hoodie.write.num.retries.on.conflict.failures"
PREFIXES: Final = ("hoodie.", "_hoodie.", "_.hoodie.", "lakedex.", "BUCKET_INDEX_")
"""What the names of options begin with, but for `as.of.instant` and the short names."""
USAGE_SETTING: Final = "spark.lakedex.index.usage"
"""Whether the queries of a session are counted."""
_SPARK_PREFIX: Final = "spark.lakedex."
SESSION_PREFIXES: Final = (*PREFIXES, _SPARK_PREFIX)
"""What the names of settings of a session begin with."""
SHORT_NAMES: Final[Mapping[str, str]] = {
    "primaryKey": "hoodie.datasource.write.recordkey.field",
    "preCombineField": "hoodie.datasource.write.precombine.field",
    "orderingFields": "hoodie.datasource.write.ordering.fields",
    "type": "hoodie.datasource.write.table.type",
    "payloadClass": "hoodie.datasource.write.payload.class",
    "recordMergeMode": "hoodie.write.record.merge.mode",
    "recordMergeStrategyId": "hoodie.write.record.merge.strategy.id",
}
"""How SQL spells the options of a new table."""
_OWN_PREFIX: Final = "lakedex."
_OF_COMMITS: Final = ("schema", "latest_schema")
"""What the metadata of a commit says by itself; options do not replace it."""
_LIST: Final = "hudi_options.tsv"
_MOST_SHOWN: Final = 200
_LEAST_ALIKE: Final = 0.8
"""How alike a name is, of 1, that an error suggests for one that nothing is near."""
_LEAST_WORDS: Final = 4
"""A name of so many words may lack one, or have one too many."""
_SHORT, _MIDDLE = 5, 12
"""Names of up to so many letters may differ by one, by two letters from the one that was meant."""
_BETWEEN_WORDS: Final = str.maketrans("", "", "._- ")
_warned: set[str] = set()


class Verdict(Enum):
    """What happens to an option that is given."""

    SERVED = "served"
    WARNED = "warned"
    """Without it the rows and files are as correct; it is accepted, and a warning says so once."""
    REFUSED = "refused"
    """It requests something that does not happen."""


class Use(Enum):
    """Who is given an option."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class HudiOption:
    """One line of the list."""

    name: str
    verdict: Verdict
    uses: tuple[Use, ...]
    accepted: tuple[str, ...]
    """Values of an option that is not served, in lower case, that request what happens anyway."""
    declared: str
    reason: str


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


def check_options(
    options: Mapping[str, str],
    use: Use = Use.WRITE,
    *,
    also: Collection[str] = (),
    may_be_own: bool = False,
) -> None:
    """Refuse unknown names and what cannot be served; warn once of each option without effect.

    Args:
        options: Names and values.
        use: Whether they are for a read or for a write.
        also: Names that are options in this place besides.
        may_be_own: Whether a user may have names of their own here, as among table properties.

    Example:
        >>> check_options({"hoodie.index.typ": "BLOOM"})
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: no option is called 'hoodie.index.typ'; did you mean ...
        >>> check_options({"hoodie.my.company.thing": "x"}, may_be_own=True)

    Raises:
        InvalidInput: a name is unknown; the message has the nearest one that exists.
        UnsupportedFeature: an option requests what lakedex does not do.
    """
    notes = commit_notes(options) if use is Use.WRITE else {}
    for name, value in options.items():
        if name in also or (use is Use.WRITE and name in _own_names()):
            continue
        option = hudi_option(name)
        if option is None:
            _check_unknown(name, also, may_be_own=may_be_own or name in notes)
        elif use not in option.uses:
            warn_once(name, use, f"it is an option of a {option.uses[0].value}")
        elif option.verdict is Verdict.WARNED:
            _warn(option, name, value, use)
        elif (reason := refusal(name, value)) is not None:
            raise UnsupportedFeature(f"{name}={value[:_MOST_SHOWN]} ({reason})")


def check_service_options(
    config: TableConfig, options: Mapping[str, str], obeyed: Iterable[TextOption], service: str
) -> None:
    """Check the options of a table service; those of other work have no effect, with a warning.

    Raises:
        InvalidInput: a name is unknown, or a value contradicts the table.
        UnsupportedFeature: an option requests what lakedex does not do.
    """
    check_options(options)
    check_restated(config, options)
    names = RESTATED.union(*(option.names for option in obeyed))
    for name in options:
        if name in _own_names() and name not in names:
            warn_once(name, service, "it is an option of other work")


def check_session(
    settings: Mapping[str, str], use: Use, *, obeyed: Collection[str] | None = None
) -> None:
    """Check the settings of a session, which are for reads and writes of all tables.

    What is misspelled or refused is an error in either use, as it is for the statement SET. Names
    of a user's own are left alone, and so are options of the other use.

    Args:
        settings: Names and values.
        use: Whether a read or a write is about to begin.
        obeyed: The options of this use that are obeyed as settings; None for all but those that
            belong to a table.

    Example:
        >>> check_session({"hoodie.enable.data.skiping": "true"}, Use.READ)
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: no option is called 'hoodie.enable.data.skiping'; did you ...

    Raises:
        InvalidInput: a name is a misspelled option.
        UnsupportedFeature: an option requests what lakedex does not do.
    """
    for name, value in settings.items():
        check_setting(name, value)
        option = hudi_option(name)
        if option is None or use not in option.uses:
            continue
        if option.verdict is Verdict.WARNED:
            _warn(option, name, value, use)
        elif option.verdict is Verdict.SERVED and _is_passed_over(name, obeyed):
            where = "the table" if obeyed is None else "the reader"
            warn_once(name, use, f"it is no setting of a session; {where} has it as its own option")


def check_setting(name: str, value: str) -> None:
    """Refuse a setting of a session that is misspelled, or that requests what does not happen.

    Example:
        >>> check_setting("spark.lakedex.index.usag", "false")
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: no setting is called 'spark.lakedex.index.usag'; there is ...

    Raises:
        InvalidInput: the name is a misspelled option.
        UnsupportedFeature: the option requests what lakedex does not do.
    """
    if name.startswith(_SPARK_PREFIX) and name != USAGE_SETTING:
        raise InvalidInput(f"no setting is called {name[:_MOST_SHOWN]!r}; there is {USAGE_SETTING}")
    check_spelling([name])
    reason = refusal(name, value)
    if reason is not None:
        raise UnsupportedFeature(f"{name}={value[:_MOST_SHOWN]} ({reason})")


def check_spelling(names: Iterable[str]) -> None:
    """Refuse names that are a misspelling of an option; others may be a user's own.

    Raises:
        InvalidInput: naming the option that was meant.
    """
    for name in names:
        if name not in _own_names() and hudi_option(name) is None:
            _check_unknown(name, (), may_be_own=True)


def commit_notes(
    options: Mapping[str, str], given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options that a write copies into the metadata of its commit: those with a prefix.

    Args:
        options: What says the prefix, `_` by default.
        given: The options of the write; else the same.

    Example:
        >>> commit_notes({"_job": "7", "hoodie.index.type": "BLOOM"})
        {'_job': '7'}
    """
    prefix = COMMIT_NOTES.text(options)
    source = options if given is None else given
    return {
        name: value
        for name, value in source.items()
        if name.startswith(prefix) and not name.startswith(_OWN_PREFIX) and name not in _OF_COMMITS
    }


def hudi_option(name: str) -> HudiOption | None:
    """The line of the list for an option of Hudi, which may be that of its family."""
    lines = _lines()
    if name in lines:
        return _line(lines[name])
    families = [family for family in _families() if name.startswith(family[:-1])]
    return _line(lines[max(families, key=len)]) if families else None


def hudi_options() -> tuple[HudiOption, ...]:
    """The whole list, families too."""
    return tuple(map(_line, _lines().values()))


def refusal(name: str, value: str) -> str | None:
    """Why an option is refused with a value, by the list; None for one that is not.

    Example:
        >>> refusal("hoodie.datasource.hive_sync.enable", "false")
        >>> refusal("hoodie.index.class", "org.example.Index")
        'Java classes are not loaded'
    """
    option = hudi_option(name)
    if option is None or option.verdict is not Verdict.REFUSED or _is_accepted(option, value):
        return None
    return option.reason


def canonical_names(given: Mapping[str, object], *, any_case: bool = True) -> dict[str, str]:
    """Options under their full names, as text.

    Args:
        given: Names and values.
        any_case: Whether the letters of a name may have lost their case.

    Example:
        >>> canonical_names({"primaryKey": "id"})
        {'hoodie.datasource.write.recordkey.field': 'id'}
        >>> canonical_names({"type": "mor", "hoodie.datasource.write.table.type": "cow"})
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: type='mor' and hoodie.datasource.write.table.type='cow' are ...

    Raises:
        InvalidInput: Two names of one option have different values.
    """
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        full = canonical_name(name) if any_case else SHORT_NAMES.get(name, name)
        text = str(value)
        if found.setdefault(full, text) != text:
            both = f"{spelled[full]}={found[full]!r} and {name}={text!r}"
            raise InvalidInput(f"{both} are one option with two values")
        spelled.setdefault(full, name)
    return found


def canonical_name(name: str) -> str:
    """An option whose letters may have lost their case, as Spark hands options over.

    Example:
        >>> canonical_name("hoodie.datasource.streaming.startoffset")
        'hoodie.datasource.streaming.startOffset'
        >>> canonical_name("PRIMARYKEY")
        'hoodie.datasource.write.recordkey.field'
    """
    return _by_lower_case().get(name.lower(), name)


def is_write_option(name: str) -> bool:
    """Whether a write obeys the option."""
    return name in _obeyed_names()


def is_own_name(name: str) -> bool:
    """Whether a property is a user's own: neither an option nor a misspelled one."""
    known = name in _own_names() or hudi_option(name) is not None
    return not known and nearest_name(name, _all_names()) is None


def nearest_name(name: str, known: Collection[str]) -> str | None:
    """The name that was most likely meant by one that does not exist; None if there is none.

    Case and the characters between words do not count, a name may lack its beginning
    (`metadata.enable`), a long one may lack a word or have one too many
    (`hoodie.metadata.column.stats.enable`), and one to three letters may differ, by the length of
    the name.

    Example:
        >>> nearest_name("typ", SHORT_NAMES), nearest_name("primary_key", SHORT_NAMES)
        ('type', 'primaryKey')
        >>> nearest_name("time", SHORT_NAMES), nearest_name("owner", SHORT_NAMES)
        (None, None)
    """
    return _nearest(name[:_MOST_SHOWN], frozenset(known))


def did_you_mean(name: str, known: Collection[str]) -> str:
    """What an error adds about the name that was most likely meant.

    Example:
        >>> did_you_mean("as.of.instnt", ["as.of.instant"])
        "; did you mean 'as.of.instant'?"
    """
    near = nearest_name(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


def _is_passed_over(name: str, obeyed: Collection[str] | None) -> bool:
    return name in RESTATED if obeyed is None else name not in obeyed


def _check_unknown(name: str, also: Collection[str], *, may_be_own: bool) -> None:
    known = _all_names() | frozenset(also)
    hint = did_you_mean(name, known)
    if not hint and not may_be_own:
        alike = difflib.get_close_matches(name[:_MOST_SHOWN], sorted(known), 1, _LEAST_ALIKE)
        hint = f"; did you mean {alike[0]!r}?" if alike else ""
    if hint or not may_be_own:
        raise InvalidInput(f"no option is called {name[:_MOST_SHOWN]!r}{hint}")


def _warn(option: HudiOption, name: str, value: str, use: Use) -> None:
    if not any(option.accepted) or not _is_accepted(option, value):
        warn_once(name, use, option.reason)


def _is_accepted(option: HudiOption, value: str) -> bool:
    text = value.strip().lower()
    return not text or text in option.accepted


def warn_once(name: str, use: Use | str, reason: str) -> None:
    """Say that an option has no effect, once for each name in a process."""
    if name not in _warned:
        _warned.add(name)
        what = use.value if isinstance(use, Use) else use
        log.warning("option %s has no effect on a %s: %s", name, what, reason)


@cache
def _lines() -> dict[str, str]:
    """The lines of the list by name; a line is taken apart when its option is given."""
    text = resources.files(__package__).joinpath(_LIST).read_text(encoding="utf-8")
    return {line.partition("\t")[0]: line for line in text.splitlines()[1:]}


@cache
def _families() -> tuple[str, ...]:
    return tuple(name for name in _lines() if name.endswith(".*"))


@lru_cache(maxsize=1024)
def _line(line: str) -> HudiOption:
    name, verdict, use, accepted, declared, reason = line.split("\t")
    uses = tuple(Use) if use == "both" else (Use(use),)
    return HudiOption(
        name, Verdict(verdict), uses, tuple(accepted.lower().split(",")), declared, reason
    )


@cache
def _obeyed_names() -> frozenset[str]:
    return frozenset(name for option in OBEYED for name in option.names) | {CONFLICT_RETRIES}


@cache
def _own_names() -> frozenset[str]:
    """What a write obeys or compares with the table; the code has the last word on that."""
    return RESTATED | _obeyed_names()


@cache
def _all_names() -> frozenset[str]:
    listed = {name for name in _lines() if not name.endswith(".*")}
    return _own_names() | listed | SHORT_NAMES.keys()


@cache
def _by_lower_case() -> dict[str, str]:
    names = {name.lower(): name for name in _all_names()}
    return names | {short.lower(): full for short, full in SHORT_NAMES.items()}


@lru_cache(maxsize=1024)
def _nearest(name: str, known: frozenset[str]) -> str | None:
    wanted, words = _letters(name), name.split(".")
    most = 1 if len(wanted) <= _SHORT else 2 if len(wanted) <= _MIDDLE else 3
    is_long = len(words) >= _LEAST_WORDS
    best: tuple[int, int, str] | None = None
    for each in known:
        letters = _letters(each)
        is_part = "." in name and each.lower().endswith(f".{name.lower()}")
        if is_part or (is_long and _differs_by_a_word(words, each.split("."))):
            found = most
        elif abs(len(letters) - len(wanted)) <= most:
            found = _distance(wanted, letters, most)
        else:
            continue
        # Of names as near as each other the shortest is the plainest.
        rank = (found, len(each), each)
        if found <= most and (best is None or rank < best):
            best = rank
    return None if best is None else best[2]


def _differs_by_a_word(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether one of two names has one word more than the other, in the same order."""
    short, long = sorted((left, right), key=len)
    if len(long) != len(short) + 1:
        return False
    same = next((at for at, word in enumerate(short) if word != long[at]), len(short))
    return short[same:] == long[same + 1 :]


def _letters(name: str) -> str:
    return name.lower().translate(_BETWEEN_WORDS)


def _distance(left: str, right: str, most: int) -> int:
    """Letters to insert, drop, change or swap; more than `most` for more than that.

    In a short name no letter is changed: `time` is another word than `type`.
    """
    change = most + 1 if most == 1 else 1
    width, far = len(right) + 1, most + 1
    before, above = [far] * width, list(range(width))
    for row, letter in enumerate(left, start=1):
        line = [far] * width
        line[0] = row
        # What is further from the diagonal has more differences than that.
        for column in range(max(1, row - most), min(width, row + most + 1)):
            other = right[column - 1]
            cost = 0 if letter == other else change
            least = min(above[column] + 1, line[column - 1] + 1, above[column - 1] + cost)
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                least = min(least, before[column - 2] + 1)
            line[column] = least
        if min(line) > most:
            return far
        before, above = above, line
    return above[-1]
