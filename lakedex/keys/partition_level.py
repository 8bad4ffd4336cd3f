"""One level of a partition path: from the values of a column to safe folder names.

A value must never choose a folder outside of its own level: empty and climbing names, hidden
names (`.hoodie`), control characters and backslashes are refused. A slash in a value that is not
url-encoded makes two folders of it, as in Hudi, where a reader can tell them from two columns: in
hive style, and where there is only one column. Elsewhere it is refused. The slashes of a date
pattern are levels on purpose, and slash-separated dates write `2026-01-05` as `2026/01/05`.
A colon in the first folder of a path is taken for the end of a scheme by the JVM: Hudi could not
read the table any more.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.keys import DROP_PARTITION_COLUMNS
from lakedex.errors import InvalidInput
from lakedex.keys.partition_path import DEFAULT_PARTITION, by_distinct, escape_path_value
from lakedex.keys.timebased import TimeFormat
from lakedex.keys.value_text import check_spellable, value_text

_MOST_BYTES = 255
_ADVICE = "set hoodie.datasource.write.partitionpath.urlencode=true when creating the table"
_PROBLEMS = (
    (r"[\x00-\x1f\x7f-\x{9f}\\\x{2028}\x{2029}]", "has a control character or a backslash"),
    (r"(?:\A|/)(?:/|\z)", "gives an empty or absolute folder name"),
    (r"(?:\A|/)\.", "gives a folder name that starts with a dot"),
    (r"\A[A-Za-z][A-Za-z0-9+.\-]*:(?:/|\z)", "gives a folder name that looks like a scheme"),
)
_COLON_IN_FIRST = r"\A[^/]*:"
_EMPTY_OR_DOTS = r"(?:\A|/)\.{0,2}(?:/|\z)"
_NAMED_BEHIND_SLASH = r"/[^/]*="


@dataclass(frozen=True, slots=True)
class PartitionLevel:
    """How one column becomes a level of the partition path.

    Example:
        >>> level = PartitionLevel("city", hive_style=True, url_encoded=True)
        >>> level.names(pa.array(["a/b", None])).to_pylist()
        ['city=a%2Fb', 'city=__HIVE_DEFAULT_PARTITION__']
    """

    field: str
    hive_style: bool = False
    url_encoded: bool = False
    time: TimeFormat | None = None
    """Set where the folder is a formatted time, not the value itself."""
    is_first: bool = False
    """Whether the path begins with it."""
    takes_slashes: bool = False
    """Whether a value with slashes may become several folders."""
    slash_dates: bool = False
    """Whether the dashes of a value become slashes."""

    only_in_path: bool = False
    """Whether files leave the column out, so that the path has to tell its value."""

    def check(self, dtype: pa.DataType) -> None:
        """Refuse a column of a type that gives no folder names.

        Raises:
            InvalidInput: naming the column and its type.
        """
        if self.slash_dates and not (pa.types.is_string(dtype) or pa.types.is_large_string(dtype)):
            raise InvalidInput(
                f"partition column {self.field!r} is {dtype}; slash-separated dates take a text "
                "column, as Hudi 1.2.0 cannot read others"
            )
        if self.only_in_path:
            self._check_told(dtype)
        if self.time is None:
            check_spellable(dtype, self.field)
        else:
            self.time.check(dtype, self.field)

    def _check_told(self, dtype: pa.DataType) -> None:
        """Refuse to leave a column out of files where folder names do not give its values back."""
        problem = None
        if self.time is not None:
            problem = "its folders are formatted times"
        elif "." in self.field:
            problem = "it is a field of a struct"
        elif pa.types.is_timestamp(dtype):
            problem = f"Hudi does not update such a column of type {dtype}"
        if problem is not None:
            raise InvalidInput(
                f"partition column {self.field!r} cannot be left out of the files "
                f"({DROP_PARTITION_COLUMNS}=true): {problem}"
            )

    def names(self, values: pa.Array) -> pa.Array:
        """The folder name of every value.

        Raises:
            InvalidInput: a value whose folder name would not be safe; column and value are named.
        """
        return by_distinct(values, self._names)

    def _names(self, values: pa.Array) -> pa.Array:
        texts = self._texts(values)
        # Harmless behind a column's name, and still never what somebody meant.
        climbs = pc.is_in(texts, value_set=pa.array([".", ".."]))
        self._refuse(climbs, values, "stands for another folder")
        if self.url_encoded:
            texts = by_distinct(texts, _escaped)
        elif self.time is None:
            texts = self._with_slashes(texts, values)
        if self.hive_style:
            texts = pc.binary_join_element_wise(f"{self.field}=", texts, "")
        for pattern, problem in _PROBLEMS:
            self._refuse(pc.match_substring_regex(texts, pattern), values, problem)
        if self.is_first:
            problem = f"gives a folder name with a colon, which Hudi cannot read; {_ADVICE}"
            self._refuse(pc.match_substring_regex(texts, _COLON_IN_FIRST), values, problem)
        too_long = pc.greater(pc.binary_length(texts), _MOST_BYTES)
        self._refuse(too_long, values, f"gives a folder name of more than {_MOST_BYTES} bytes")
        return texts

    def _with_slashes(self, texts: pa.Array, values: pa.Array) -> pa.Array:
        """The texts of values that may become several folders, each of them a safe one."""
        has_slash = pc.match_substring(texts, "/")
        if self.slash_dates:
            problem = "has a slash; write slash-separated dates with dashes, as 2026-01-05"
            self._refuse(has_slash, values, problem)
            is_null = pc.equal(texts, DEFAULT_PARTITION)
            texts = pc.if_else(is_null, texts, pc.replace_substring(texts, "-", "/"))
            has_slash = pc.match_substring(texts, "/")
        elif not self.takes_slashes:
            self._refuse(has_slash, values, f"has a slash; {_ADVICE}")
        unsafe = pc.match_substring_regex(texts, _EMPTY_OR_DOTS)
        problem = "gives an empty or climbing folder name"
        self._refuse(pc.and_(has_slash, unsafe), values, problem)
        if self.hive_style:
            named = pc.match_substring_regex(texts, _NAMED_BEHIND_SLASH)
            problem = f"has '=' behind a slash, as the folder of another column has; {_ADVICE}"
            self._refuse(named, values, problem)
        return texts

    def _texts(self, values: pa.Array) -> pa.Array:
        if self.time is not None:
            return self.time.texts(values, self.field)
        texts = value_text(values, self.field)
        if self.only_in_path:
            lost = pc.is_in(texts, value_set=pa.array(["", DEFAULT_PARTITION]))
            problem = "would be read as null, as files leave the column out"
            self._refuse(lost, values, problem)
        texts = pc.fill_null(texts, "")
        return pc.if_else(pc.equal(texts, ""), DEFAULT_PARTITION, texts)

    def _refuse(self, bad: pa.Array, values: pa.Array, problem: str) -> None:
        at = pc.index(bad, value=True).as_py()
        if at >= 0:
            shown = repr(values[at].as_py())[:200]
            raise InvalidInput(f"partition column {self.field!r}: the value {shown} {problem}")


def _escaped(texts: pa.Array) -> pa.Array:
    return pa.array([escape_path_value(text) for text in texts.to_pylist()], pa.string())
