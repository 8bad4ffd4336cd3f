"""What a `pyarrow.compute.Expression` is made of, read from its serialised form.

pyarrow has no way to look into an expression, but it can serialise one: an Arrow IPC file with a
single row. The schema's metadata is the tree in prefix order, as pairs of key and value:
`call`/name opens a call and `end`/name closes it, `field_ref`/name is a column,
`nested_field_ref`/n announces that the next n field_refs are one path, `literal`/i is the constant
in column i of the row, and `options`/i the options of the open call. Constants keep their exact
Arrow types, so nothing is ever parsed from text.

Metadata keys repeat, which pyarrow's dictionary view cannot show; the pairs are read through the
Arrow C data interface: a count, then length-prefixed keys and values, all 32-bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a path into struct columns."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    scalar: pa.Scalar


@dataclass(slots=True)
class Function:
    """A call of an Arrow compute function."""

    name: str
    arguments: list[Node] = field(default_factory=list)
    options: pa.StructScalar | None = None


Node = Field | Constant | Function


def read_expression(expression: pc.Expression) -> Node | None:
    """The parts of an expression; None when this version of Arrow cannot serialise it.

    Example:
        >>> read_expression(pc.field("a") > 5).name
        'greater'
    """
    try:
        _, (buffer,) = expression.__reduce__()
        table = pa.ipc.open_file(buffer).read_all()
        return _build(_metadata_pairs(table.schema), table)
    except (pa.ArrowException, ValueError, TypeError, IndexError, UnicodeDecodeError):
        return None


def columns_in(expression: pc.Expression) -> frozenset[str] | None:
    """The top-level columns that an expression names; None when that cannot be told.

    Example:
        >>> sorted(columns_in((pc.field("a") > 5) | pc.field("b", "x").is_null()))
        ['a', 'b']
    """
    root = read_expression(expression)
    if root is None:
        return None
    found: set[str] = set()
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Field):
            found.add(node.path[0])
        elif isinstance(node, Function):
            pending.extend(node.arguments)
    return frozenset(found)


def _build(pairs: Iterator[tuple[bytes, bytes]], table: pa.Table) -> Node:
    root = Function("root")
    open_calls = [root]
    for key, value in pairs:
        match key:
            case b"call":
                call = Function(value.decode())
                open_calls[-1].arguments.append(call)
                open_calls.append(call)
            case b"end":
                open_calls.pop()
            case b"options":
                open_calls[-1].options = table.column(int(value))[0]
            case b"literal":
                open_calls[-1].arguments.append(Constant(table.column(int(value))[0]))
            case b"field_ref":
                open_calls[-1].arguments.append(Field((value.decode(),)))
            case b"nested_field_ref":
                path = tuple(next(pairs)[1].decode() for _ in range(int(value)))
                open_calls[-1].arguments.append(Field(path))
            case _:
                raise ValueError(key)
    if open_calls != [root] or len(root.arguments) != 1:
        raise ValueError(len(open_calls))
    return root.arguments[0]


class _ArrowSchema(ctypes.Structure):
    """The head of the C data interface's ArrowSchema."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _metadata_pairs(schema: pa.Schema) -> Iterator[tuple[bytes, bytes]]:
    # The capsule owns the memory: it must live until the last pair has been read.
    capsule = schema.__arrow_c_schema__()
    place = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if place is None:
        raise ValueError("no metadata")
    count = ctypes.c_int32.from_address(place).value
    place += 4
    for _ in range(count):
        key, place = _bytes_at(place)
        value, place = _bytes_at(place)
        yield key, value
    del capsule


def _bytes_at(place: int) -> tuple[bytes, int]:
    length = ctypes.c_int32.from_address(place).value
    return ctypes.string_at(place + 4, length), place + 4 + length
