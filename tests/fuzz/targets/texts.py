"""Targets for text: table properties, index definitions, schema histories, SQL and its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import pyarrow as pa

from lakedex.config import TableConfig, checksum_matches, decode_properties, parse_properties
from lakedex.errors import LakedexError
from lakedex.expr import (
    bind_predicate,
    evaluate,
    from_json,
    key_points,
    normalise,
    parse_predicate,
    to_json,
)
from lakedex.index.definitions import parse_definitions
from lakedex.index.kinds.expression.definition import indexed_expression
from lakedex.schema import parse_history
from lakedex.schema.internal_schema import mapping
from tests.fuzz.cases import Target
from tests.fuzz.corpus import golden_files
from tests.fuzz.mutators import EXTREMES
from tests.fuzz.nesting import DEPTHS, deep_json

_BATCH = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "city": pa.array(["Oslo", None, "x%_"]),
        "fare": pa.array([1.5, float("nan"), None]),
        "price": pa.array([1, 2, None], pa.decimal128(12, 2)),
        "ts": pa.array([0, 10**15, None], pa.timestamp("us", "UTC")),
        "day": pa.array([0, 20_000, None], pa.date32()),
        "ok": pa.array([True, False, None]),
    }
)


def read_properties(data: bytes) -> None:
    """Text, checksum and typed config."""
    props = parse_properties(decode_properties(data), path="hoodie.properties")
    checksum_matches(props)
    config = TableConfig.from_properties(props, "hoodie.properties")
    config.require_readable_base_files()
    config.require_known_merge()


def _properties_extremes() -> list[Callable[[], bytes]]:
    return [
        lambda: b"\\\n" * 200_000,
        lambda: b"\\" * 400_001,
        lambda: b"a=" + b"\\u0041" * 100_000,
        lambda: b"a=\\u00",
        lambda: b" \t\f" * 200_000,
        lambda: b"\n".join(b"k%d=v" % number for number in range(50_000)),
        lambda: b"hoodie.table.name=" + b"x" * (1 << 20),
        *(
            lambda value=value: (
                b"hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\n"
                b"hoodie.table.version=9\nhoodie.timeline.layout.version=2\n" + value
            )
            for value in (
                b"hoodie.timeline.path=../..",
                b"hoodie.timeline.history.path=/etc",
                b"hoodie.archivelog.folder=../../x",
                b"hoodie.table.index.defs.path=/etc/passwd",
                b"hoodie.table.index.defs.path=../../../etc/passwd",
                b"hoodie.table.version=" + b"9" * 5000,
            )
        ),
    ]


PROPERTIES = Target(
    "properties",
    lambda: golden_files("*/.hoodie/hoodie.properties", most=1),
    read_properties,
    extremes=_properties_extremes,
)


def read_definitions(data: bytes) -> None:
    """Every definition, and the expression that it stands for."""
    schema = _BATCH.schema.append(pa.field("rider", pa.string()))
    for definition in list(parse_definitions(data, path="index.json").values())[:20]:
        _ = definition.is_partitioned
        indexed_expression(definition, schema, "UTC")


DEFINITIONS = Target(
    "index-definitions",
    lambda: golden_files("*/.hoodie/.index_defs/index.json", most=1),
    read_definitions,
    extremes=deep_json,
)


def read_history(data: bytes) -> None:
    """Parse a history and map its oldest version to its newest."""
    history = parse_history(data.decode("utf-8", "surrogateescape"), path="x.schemacommit")
    mapping(history.versions[0], history.newest)
    history.version_at("20260101000000000")


def _history_extremes() -> list[Callable[[], bytes]]:
    def nested(depth: int) -> Callable[[], bytes]:
        inner = '{"type":"array","element_id":1,"element":' * depth + '"int"' + "}" * depth
        field = f'{{"id":0,"name":"c","type":{inner}}}'
        return f'{{"version_id":0,"type":"record","fields":[{field}]}}'.encode

    return [*deep_json(), *(nested(depth) for depth in (60, 70, 2_000, 50_000))]


HISTORY = Target(
    "schema-history",
    lambda: golden_files("*/.hoodie/.schema/*.schemacommit", "schema_evolution", most=4),
    read_history,
    extremes=_history_extremes,
)

_SQL = (
    "city = 'Oslo' AND fare > 20.5",
    "id in (1, 2, null) or not (ok <=> true)",
    "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS') >= '2026-01-01'",
    "cast(price as decimal(38, 10)) between -1.0e3 and 1e-3 and day < date '2026-02-30'",
    "city like 'a\\_%b' escape '\\\\' and upper(substring(city, 2, 3)) = 'X'",
    "case when id % 0 = 1 then 2 else -id end <> 3 or ts = timestamp '2026-01-01 00:00:00+25:99'",
    "`id` is not null and from_unixtime(id, 'yyyy') = '2026' and round(fare, 2147483647) = 1",
    "x'ff' = city or interval 1 day is null or id = 9223372036854775808L",
    "regexp_extract(city, '(a+)+$', 1) = 'a' and rpad(city, 1000000000, 'x') = city",
    "date_add(day, 2147483647) > day and coalesce(id, fare) != 1 and hour(ts) = 25",
)


def read_sql(data: bytes) -> None:
    """Parse, bind, normalise, evaluate."""
    text = data.decode("utf-8", "surrogateescape")
    tree = parse_predicate(text)
    with suppress(LakedexError):
        json.dumps(to_json(tree))
    _use(tree)


def _use(tree: object) -> None:
    bound = bind_predicate(tree, _BATCH.schema)
    normal = normalise(bound)
    key_points(normal, ["id"], 1000)
    evaluate(bound, _BATCH)
    evaluate(normal, _BATCH)


def _words(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Words of all seeds in a new order."""
    words = b" ".join(seeds[: len(_SQL)]).split()
    return b" ".join(rng.choice(words) for _ in range(rng.randrange(1, 25)))


def _glued(rng: Random, seeds: Sequence[bytes]) -> bytes:
    parts = [rng.choice(seeds) for _ in range(rng.randrange(2, 6))]
    return rng.choice((b" and ", b" or ", b" = ", b" + ", b"), not (")).join(parts)


def _well_formed(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    """A predicate that is right as SQL, with values that need not fit the columns."""
    terms = []
    for _ in range(rng.randrange(1, 5)):
        column = rng.choice([*_BATCH.column_names, "upper(city)", "cast(id as string)", "-id"])
        value = rng.choice(
            (str(rng.choice(EXTREMES)), "'x'", "null", "1e300", "0.1", "date '2026-01-01'", column)
        )
        form = rng.choice(("{} = {}", "{} < {}", "{} <=> {}", "{} in (1, {})", "not {} >= {}"))
        terms.append(form.format(column, value))
    return rng.choice((" and ", " or ")).join(terms).encode()


def _sql_extremes() -> list[Callable[[], bytes]]:
    found: list[Callable[[], bytes]] = []
    for depth in DEPTHS:
        found += [
            lambda depth=depth: b"(" * depth + b"id = 1" + b")" * depth,
            lambda depth=depth: b"not " * depth + b"ok",
            lambda depth=depth: b"-" * depth + b"1 = id",
            lambda depth=depth: b"- " * depth + b"1 = id",
            lambda depth=depth: b"abs(" * depth + b"id" + b")" * depth + b" = 1",
            lambda depth=depth: b"id = 1" + b" and id = 1" * depth,
            lambda depth=depth: b"id = 1" + b" + 1" * depth,
            lambda depth=depth: b"id in (1" + b",1" * depth + b")",
            lambda depth=depth: b"case when ok then " * depth + b"1",
            lambda depth=depth: b"cast(" * depth + b"id",
        ]
    found += [
        lambda: b"city = '" + b"x" * (1 << 20) + b"'",
        lambda: b"city = '" + b"\\" * (1 << 20),
        lambda: b"id = " + b"9" * (1 << 20),
        lambda: b"fare = 1" + b"0" * 5000 + b"e" + b"9" * 5000,
        lambda: b"/*" * (1 << 19),
        lambda: b"--" + b"x" * (1 << 20),
        lambda: b" " * (1 << 20),
        lambda: b"city like '" + b"%a" * 2000 + b"'",
        lambda: b"city like '" + b"%_" * 20_000 + b"b'",
        lambda: b"repeat(city, 2147483647) = city",
        lambda: b"lpad(city, 2147483647, 'ab') = city",
        lambda: b"id = 1" + b" or id = 1 and fare = 2" * 5000,
        lambda: b" and ".join(b"(id = %d or fare = %d)" % (at, at) for at in range(30)),
        lambda: b"`" * (1 << 18),
        lambda: b"a." * 100_000 + b"b = 1",
    ]
    return found


SQL = Target(
    "sql",
    lambda: [text.encode() for text in _SQL],
    read_sql,
    shapes=(_words, _glued, _well_formed, _well_formed),
    extremes=_sql_extremes,
    shape_share=0.6,
)


def read_expression_json(data: bytes) -> None:
    """The JSON form of an expression."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return
    expr = from_json(tree)
    to_json(expr)
    _use(expr)


def _json_seeds() -> list[bytes]:
    found = []
    for text in _SQL:
        try:
            found.append(json.dumps(to_json(parse_predicate(text))).encode())
        except LakedexError:
            continue
    return found


EXPRESSION_JSON = Target("expression-json", _json_seeds, read_expression_json, extremes=deep_json)

TARGETS = (PROPERTIES, DEFINITIONS, HISTORY, SQL, EXPRESSION_JSON)
