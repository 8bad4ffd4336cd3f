"""Options as users type them, one class for each kind of value; errors name option and value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakedex.errors import InvalidInput

Number = TypeVar("Number", int, float)
_MOST_DIGITS = 18
_TRUE, _FALSE = "true", "false"


@dataclass(frozen=True, slots=True)
class TextOption:
    """An option with a default and, where Hudi renamed it, its older names."""

    name: str
    default: str
    older_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the newest first."""
        return (self.name, *self.older_names)

    def given(self, options: Mapping[str, str]) -> str | None:
        """The value that was given, by any of its names; None when there is none.

        Raises:
            InvalidInput: two names of the option were given with different values.
        """
        found = {name: options[name].strip() for name in self.names if name in options}
        if len(set(found.values())) > 1:
            shown = " and ".join(f"{name}={value}" for name, value in found.items())
            raise InvalidInput(f"{shown} are one option with two values")
        return next(iter(found.values()), None)

    def text(self, options: Mapping[str, str]) -> str:
        """The value as text, the default when none was given."""
        found = self.given(options)
        return self.default if found is None else found


@dataclass(frozen=True, slots=True)
class FlagOption(TextOption):
    """`true` or `false`.

    Example:
        >>> FlagOption("hoodie.combine.before.upsert", "true").value({})
        True
    """

    def value(self, options: Mapping[str, str]) -> bool:
        """The flag.

        Raises:
            InvalidInput: the value is neither `true` nor `false`.
        """
        text = self.text(options).lower()
        if text not in (_TRUE, _FALSE):
            raise InvalidInput(f"{self.name}={text[:80]!r} must be true or false")
        return text == _TRUE


@dataclass(frozen=True, slots=True)
class _NumericOption(TextOption, Generic[Number]):
    """An option whose value is a number."""

    def value(self, options: Mapping[str, str]) -> Number:
        """The number, the default when none was given."""
        raise NotImplementedError

    def value_if_given(self, options: Mapping[str, str]) -> Number | None:
        """The number, if one is given; None where the default applies.

        Raises:
            InvalidInput: the value is no such number, or too small or large.
        """
        return None if self.given(options) is None else self.value(options)


@dataclass(frozen=True, slots=True)
class NumberOption(_NumericOption[int]):
    """A whole number between `least` and `most`.

    Example:
        >>> NumberOption("hoodie.parquet.max.file.size", "10").value({})
        10
    """

    least: int = 1
    most: int = (1 << 63) - 1

    def value(self, options: Mapping[str, str]) -> int:
        """The number.

        Raises:
            InvalidInput: the value is no whole number, or too small or large.
        """
        text = self.text(options)
        digits = text.removeprefix("-")
        good = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
        if not good or not self.least <= int(text) <= self.most:
            limits = f"a whole number of {self.least} to {self.most}"
            raise InvalidInput(f"{self.name}={text[:80]!r} must be {limits}")
        return int(text)


@dataclass(frozen=True, slots=True)
class ChoiceOption(TextOption):
    """One of a few words, in any case."""

    choices: tuple[str, ...] = ()

    def value(self, options: Mapping[str, str]) -> str:
        """The word as it is in `choices`.

        Raises:
            InvalidInput: the value is none of them.
        """
        text = self.text(options)
        for choice in self.choices:
            if choice.lower() == text.lower():
                return choice
        known = ", ".join(self.choices)
        raise InvalidInput(f"{self.name}={text[:80]!r} must be one of {known}")


@dataclass(frozen=True, slots=True)
class RateOption(_NumericOption[float]):
    """A number above 0 and below 1."""

    def value(self, options: Mapping[str, str]) -> float:
        """The number.

        Raises:
            InvalidInput: the value is no such number.
        """
        return _number(self, options, lambda number: 0.0 < number < 1.0, "between 0 and 1")


@dataclass(frozen=True, slots=True)
class FactorOption(_NumericOption[float]):
    """A number of at least 1."""

    def value(self, options: Mapping[str, str]) -> float:
        """The number.

        Raises:
            InvalidInput: the value is no such number.
        """
        return _number(self, options, lambda number: 1.0 <= number <= 1e6, "of at least 1")


@dataclass(frozen=True, slots=True)
class NamesOption(TextOption):
    """A comma list of names.

    Example:
        >>> NamesOption("columns", "").value({"columns": "a, b"})
        ('a', 'b')
    """

    def value(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """The names, without empty ones.

        Raises:
            InvalidInput: a name occurs twice.
        """
        names = [name.strip() for name in self.text(options).split(",") if name.strip()]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InvalidInput(f"{self.name} names {twice[0]!r} twice")
        return tuple(names)


def _number(
    option: TextOption,
    options: Mapping[str, str],
    is_fit: Callable[[float], bool],
    wanted: str,
) -> float:
    text = option.text(options)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not is_fit(number):
        raise InvalidInput(f"{option.name}={text[:80]!r} must be a number {wanted}")
    return number


def flag_text(flag: bool) -> str:  # noqa: FBT001 (its value, not a mode)
    """`true` or `false`, as properties spell it."""
    return _TRUE if flag else _FALSE
