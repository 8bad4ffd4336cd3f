"""The contract between lakedex's classes in the JVM and Python: calls, layouts and constants.

This module is the only place where these are written down. The Java sources use the classes
`Contract` and `Calls`, which are generated from `CONTRACT` before they are compiled, so a call with
other parameters does not compile. A JVM may hold classes that another version of lakedex compiled
earlier; `check_contract` compares the two contracts when a session is attached.

Calls go from the JVM to Python. The first parameter of each is the session's UUID. Parameters that
are all texts travel as one text, a line for each, because every member of a JVM list costs Python a
round trip; the last text may have several lines. Other calls travel as a JVM list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from lakedex.errors import UnsupportedFeature

SEPARATOR: Final = "\n"
"""Between the parameters of a call, the fields of an answer, and names in a list."""
FIELD_SEPARATOR: Final = "\t"
"""Between the name and the size of a file, and between a setting and its value."""
NUMBER_SEPARATOR: Final = " "
REFUSED: Final = "!"
"""An answer that starts with this is the text of an error."""
NOT_ATTACHED: Final = "this Spark session is not attached: call lakedex.attach(spark)"

DATA_SOURCE: Final = "lakedex"
HUDI_SOURCE: Final = "hudi"
PATH_OPTION: Final = "path"
"""The option with the path of a table; a `ReadSpec` has it under the same name."""
PARTITION_COLUMNS_OPTION: Final = "__partition_columns"
"""Where Spark puts the columns of `DataFrameWriter.partitionBy`."""
SPARK_OPTIONS: Final = "__"
"""The names of options begin with this that Spark itself gives a name in a query."""
TABLE_RELATION: Final = "TableRelation"
"""The class of the relation that stands for a table until a query is planned."""
TIME_TRAVEL: Final = "RelationTimeTravel"
HUDI_TIME_TRAVEL: Final = "TimeTravelRelation"
"""The name that Hudi's own parser has for the plan of TIMESTAMP AS OF."""
STREAMING_QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""The property of a thread that holds the id of the streaming query that it runs."""
CANCELLED_JOB: Final = "Job [0-9]+ cancelled"
"""A pattern of the message of a cancelled Spark job, for Java and for Python."""
UNSET_SETTING: Final = "true"
"""The value of a setting that is not set, among those that `Settings.read` names."""

COUNT_OF_COUNTS: Final = 4
ALL_FILES, ALL_BYTES, READ_FILES, READ_BYTES = range(COUNT_OF_COUNTS)
"""The places of the numbers that say how much of a table a scan reads."""

READERS_NATIVE: Final = "native"
READERS_MERGED: Final = "merged"
READERS_BOTH: Final = "both"
"""Which readers a table needs: Spark's for Parquet files, ours for merged slices, or both."""

KEYS_UNUSED: Final = "no"
KEYS_BROADCAST: Final = "broadcast"
KEYS_ANY: Final = "any"
"""How the keys of one side of a join reach the scan of the other: not, from a broadcast, or in
any way."""

FILTER_NODES: Final = "nodes"
FILTER_ROOTS: Final = "roots"
FILTER_LEGACY_TIMES: Final = "legacy_times"
NODE_KIND: Final = "k"
NODE_TYPE: Final = "t"
NODE_CHILDREN: Final = "c"
NODE_NAME: Final = "n"
NODE_VALUE: Final = "v"
NODE_VALUES: Final = "s"
NODE_ZONE: Final = "z"
NODE_MODE: Final = "m"
NODE_SWITCHES: Final = "b"
NODE_ESCAPE: Final = "e"
NODE_UNREADABLE: Final = "u"
"""The members of the JSON in which filters travel; `FilterText.java` describes them."""
LITERAL_KIND: Final = "Literal"
VALUE_LIST_KIND: Final = "InSet"

_CONSTANTS = (
    *("SEPARATOR", "FIELD_SEPARATOR", "NUMBER_SEPARATOR", "REFUSED", "NOT_ATTACHED"),
    *("DATA_SOURCE", "HUDI_SOURCE", "PATH_OPTION", "PARTITION_COLUMNS_OPTION", "SPARK_OPTIONS"),
    *("TIME_TRAVEL", "HUDI_TIME_TRAVEL", "STREAMING_QUERY_PROPERTY", "CANCELLED_JOB"),
    *("UNSET_SETTING", "COUNT_OF_COUNTS", "ALL_FILES", "ALL_BYTES", "READ_FILES", "READ_BYTES"),
    *("READERS_NATIVE", "READERS_MERGED", "READERS_BOTH"),
    *("KEYS_UNUSED", "KEYS_BROADCAST", "KEYS_ANY"),
    *("FILTER_NODES", "FILTER_ROOTS", "FILTER_LEGACY_TIMES"),
    *("NODE_KIND", "NODE_TYPE", "NODE_CHILDREN", "NODE_NAME", "NODE_VALUE", "NODE_VALUES"),
    *("NODE_ZONE", "NODE_MODE", "NODE_SWITCHES", "NODE_ESCAPE", "NODE_UNREADABLE"),
    *("LITERAL_KIND", "VALUE_LIST_KIND"),
)


class Kind(Enum):
    """The type of a parameter or an answer; the value is its type in Java."""

    TEXT = "String"
    FLAG = "boolean"
    TEXTS = "String[]"
    """Any number of texts; only as the last parameter."""
    NUMBER = "long"
    OPTIONS = "java.util.Map"
    OBJECT = "Object"
    NOTHING = "void"


Answer: TypeAlias = "Kind | tuple[str, ...]"
"""A type, or the names of the lines of a text."""
_IN_TEXT = frozenset([Kind.TEXT, Kind.FLAG, Kind.TEXTS])
_BOXED = {Kind.FLAG: "Boolean.valueOf({})", Kind.NUMBER: "Long.valueOf({})"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call from the JVM to Python; the server has a method of the same name."""

    name: str
    parameters: Mapping[str, Kind]
    answer: Answer = Kind.NOTHING

    @property
    def is_text(self) -> bool:
        """Whether the parameters travel as one text."""
        return _IN_TEXT.issuperset(self.parameters.values())

    def session_of(self, message: Any) -> str:  # noqa: ANN401 - a text or a list of the JVM
        """The session that a message is from."""
        return message.partition(SEPARATOR)[0] if self.is_text else str(message[0])

    def arguments(self, message: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
        r"""The arguments of a message by the names of the parameters, without the session.

        Example:
            >>> call = Call("wait", {"stream": Kind.TEXT, "all": Kind.FLAG})
            >>> call.arguments("session-1\nclicks\ntrue")
            {'stream': 'clicks', 'all': True}
        """
        if self.is_text:
            most = -1 if Kind.TEXTS in self.parameters.values() else len(self.parameters)
            given: list[Any] = message.split(SEPARATOR, most)[1:]
            if Kind.TEXTS in self.parameters.values():
                place = len(self.parameters) - 1
                given[place:] = [tuple(given[place:])]
        else:
            given = [message[1 + place] for place in range(len(self.parameters))]
        pairs = zip(self.parameters.items(), given, strict=True)
        return {name: _value(kind, value) for (name, kind), value in pairs}

    def lines(self, **fields: object) -> str:
        """An answer of several lines, by their names."""
        if not isinstance(self.answer, tuple) or set(fields) != set(self.answer):
            raise ValueError(f"the answer of {self.name} is {self.answer}, not {tuple(fields)}")
        return SEPARATOR.join(str(fields[name]) for name in self.answer)

    @property
    def _described(self) -> str:
        parameters = ", ".join(f"{kind.value} {name}" for name, kind in self.parameters.items())
        answer = self.answer.value if isinstance(self.answer, Kind) else "/".join(self.answer)
        return f"{self.name}({parameters}) -> {answer}"

    def _java(self) -> str:
        """The static method that makes the call."""
        names = ["session", *map(_camel_case, self.parameters)]
        kinds = [Kind.TEXT, *self.parameters.values()]
        typed = ", ".join(f"{kind.value} {name}" for kind, name in zip(kinds, names, strict=True))
        if self.is_text:
            parts = (
                f"joined({name})" if kind is Kind.TEXTS else name
                for kind, name in zip(kinds, names, strict=True)
            )
            message = " + Contract.SEPARATOR + ".join(parts)
        else:
            boxed = (
                _BOXED.get(kind, "{}").format(name) for kind, name in zip(kinds, names, strict=True)
            )
            message = f"java.util.Arrays.asList(new Object[] {{{', '.join(boxed)}}})"
        made = f'Python.call("{self.name}", {message})'
        result, body = "String[]", f"return lines({made}, {len(tuple(self._lines))});"
        if self.answer is Kind.NOTHING:
            result, body = "void", f"{made};"
        elif isinstance(self.answer, Kind):
            result, body = self.answer.value, f"return ({self.answer.value}) {made};"
        head = f"  public static {result} {_camel_case(self.name)}({typed}) {{"
        return f"{head}\n    {body}\n  }}\n"

    @property
    def _lines(self) -> tuple[str, ...]:
        return self.answer if isinstance(self.answer, tuple) else ()


def _value(kind: Kind, value: Any) -> Any:  # noqa: ANN401 - what py4j gives
    if kind is Kind.OPTIONS:
        return dict(value)
    if kind is Kind.FLAG:
        return value == "true" if isinstance(value, str) else bool(value)
    if kind is Kind.TEXT:
        return "" if value is None else str(value)
    return value


@dataclass(frozen=True, slots=True)
class Contract:
    """Constants and calls that both sides use."""

    constants: Mapping[str, str | int]
    calls: tuple[Call, ...]

    @property
    def text(self) -> str:
        """A line for each constant and each call, with which two versions are compared."""
        constants = (f"{name} = {value!r}" for name, value in self.constants.items())
        return "\n".join([*constants, *(call._described for call in self.calls)])

    def java_sources(self) -> dict[str, str]:
        """The Java class `Contract` with the constants, and `Calls` with a method for each call."""
        constants = [_constant(name, value) for name, value in self.constants.items()]
        places = [
            _constant(f"{call.name}_{line}".upper(), place)
            for call in self.calls
            for place, line in enumerate(call._lines)
        ]
        members = "".join([*constants, *places, _constant("TEXT", self.text), _TEXT_METHOD])
        methods = "\n".join(call._java() for call in self.calls)
        return {
            "Contract": _java_class("Contract", members),
            "Calls": _java_class("Calls", _CALL_HELPERS + methods),
        }


def _java_class(name: str, members: str) -> str:
    return (
        "package lakedex.jvm;\n\n/** Generated from `spark/jvm_contract.py`. */\n"
        f"public final class {name} {{\n\n  private {name}() {{}}\n\n{members}}}\n"
    )


_TEXT_METHOD = """
  /** The contract that these classes were compiled with. */
  public static String text() {
    return TEXT;
  }
"""
_CALL_HELPERS = """
  private static String joined(String[] texts) {
    return String.join(Contract.SEPARATOR, texts);
  }

  private static String[] lines(Object answer, int count) {
    String[] lines = ((String) answer).split(Contract.SEPARATOR, -1);
    if (lines.length != count) {
      throw new IllegalStateException("an answer of " + lines.length + " lines, not " + count);
    }
    return lines;
  }

"""


def _constant(name: str, value: str | int) -> str:
    if isinstance(value, int):
        return f"  public static final int {name} = {value};\n"
    return f"  public static final String {name} = {_quoted(value)};\n"


def _quoted(text: str) -> str:
    r"""A text as Java has it.

    Example:
        >>> print(_quoted('a "b"' + chr(9)))
        "a \"b\"\u0009"
    """
    marks = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    plain = (
        marks.get(each) or (each if " " <= each <= "~" else f"\\u{ord(each):04x}") for each in text
    )
    return f'"{"".join(plain)}"'


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


DESCRIBE_TABLE = Call(
    "describe_table",
    {"options": Kind.OPTIONS, "columns": Kind.TEXT},
    ("spec", "columns", "size"),
)
PIN = Call("pin", {"spec": Kind.TEXT}, ("name", "root", "native_size", "merged_size", "readers"))
_OF_SCAN = {"pin": Kind.TEXT, "filters": Kind.TEXT}
_OF_STREAM = {"stream": Kind.TEXT, "options": Kind.OPTIONS}

CALLS = (
    DESCRIBE_TABLE,
    PIN,
    Call("list_files", _OF_SCAN, Kind.TEXT),
    Call("check_files", _OF_SCAN),
    Call("read_merged", {**_OF_SCAN, "columns": Kind.TEXT}, Kind.OBJECT),
    Call("count_merged", _OF_SCAN, Kind.TEXT),
    Call(
        "join_keys",
        {
            "pin": Kind.TEXT,
            "size": Kind.TEXT,
            "read_size": Kind.TEXT,
            "is_selective": Kind.FLAG,
            "is_cheap": Kind.FLAG,
            "columns": Kind.TEXTS,
        },
        Kind.TEXT,
    ),
    Call("insert", {"spec": Kind.TEXT, "overwrite": Kind.FLAG, "rows": Kind.OBJECT}),
    Call("save", {"mode": Kind.TEXT, "options": Kind.OPTIONS, "rows": Kind.OBJECT}),
    Call("check_stream", {"options": Kind.OPTIONS}),
    Call("stream_newest", _OF_STREAM, Kind.TEXT),
    Call(
        "stream_next",
        {**_OF_STREAM, "after": Kind.TEXT, "up_to": Kind.TEXT, "everything": Kind.FLAG},
        Kind.TEXT,
    ),
    Call("stream_batch", {**_OF_STREAM, "after": Kind.TEXT, "position": Kind.TEXT}, Kind.TEXT),
    Call(
        "stream_write",
        {
            "query": Kind.TEXT,
            "number": Kind.NUMBER,
            "mode": Kind.TEXT,
            "options": Kind.OPTIONS,
            "rows": Kind.OBJECT,
        },
    ),
    Call("take_statement", {"text": Kind.TEXT, "plan": Kind.OBJECT}, Kind.OBJECT),
    Call("take_write", {"plan": Kind.OBJECT}, Kind.OBJECT),
    Call("resolve_relation", {"node": Kind.OBJECT}, Kind.OBJECT),
    Call("resolve_index_names", {"plan": Kind.OBJECT}, Kind.OBJECT),
    Call("resolve_view", {"plan": Kind.OBJECT, "name": Kind.TEXT, "zone": Kind.TEXT}, Kind.OBJECT),
    Call("run_statement", {"name": Kind.TEXT}, Kind.OBJECT),
)
"""All calls; `TableServer` answers them."""

CONTRACT = Contract({name: globals()[name] for name in _CONSTANTS}, CALLS)


def check_contract(package: Any, contract: Contract) -> None:  # noqa: ANN401
    """Compare the contract of the classes in the JVM with that of this version of lakedex.

    Args:
        package: The package `lakedex.jvm` of the JVM.
        contract: That of this version.

    Raises:
        UnsupportedFeature: They differ; the message has the first difference.
    """
    theirs, ours = str(package.Contract.text()).split("\n"), contract.text.split("\n")
    if theirs == ours:
        return
    theirs_only = [line for line in theirs if line not in ours]
    ours_only = [line for line in ours if line not in theirs]
    there, here = (", ".join(lines[:1]) or "nothing" for lines in (theirs_only, ours_only))
    raise UnsupportedFeature(
        f"a JVM with the classes of another version of lakedex (`{there}` there, `{here}` here)",
        instead="restart the Spark application",
    )
