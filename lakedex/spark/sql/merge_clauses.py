"""The WHEN clauses of a MERGE: which rows each takes, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.spark.sql.context import Context, Statement
from lakedex.spark.sql.plans import Node, kind, listed, optional, relation_under
from lakedex.spark.sql.targets import Target, assigned_values

OLD, SOURCE = "__lakedex_old_", "__lakedex_source_"
"""What the columns of target and source are called in the join, with their number behind."""
_INSERTS = ("InsertAction", "InsertStarAction")


@dataclass(frozen=True)
class Clause:
    """A WHEN clause: which rows it takes, and the new values; None for rows to delete."""

    number: int
    group: str
    condition: Column | None
    values: dict[str, Column] | None


@dataclass(frozen=True)
class Clauses:
    """All clauses of a MERGE, by what a row has a partner in."""

    updates: list[Clause]
    inserts: list[Clause]
    leavers: list[Clause]

    @classmethod
    def of(
        cls, context: Context, statement: Statement, target: Target, source_columns: Sequence[str]
    ) -> Clauses:
        """The clauses of a statement."""
        sources: dict[str, str] = {}
        for at, name in enumerate(source_columns):
            sources[name.lower()] = "" if name.lower() in sources else f"{SOURCE}{at}"
        reader = _Reader(context, statement, target, sources)
        plan = statement.plan
        return cls(
            reader.clauses(plan.matchedActions(), "both", 0),
            reader.clauses(plan.notMatchedActions(), "source", 1000),
            reader.clauses(plan.notMatchedBySourceActions(), "target", 2000),
        )

    @property
    def all(self) -> list[Clause]:
        """All of them, in the order in which they are asked."""
        return [*self.updates, *self.inserts, *self.leavers]

    def join(self, *, keeps_all: bool) -> str:
        """How target and source are joined, so that all rows are there that a clause may take."""
        if self.inserts and (self.leavers or keeps_all):
            return "full_outer"
        if keeps_all:
            return "left_outer"
        return "right_outer" if self.inserts else "left_outer" if self.leavers else "inner"


@dataclass(frozen=True)
class _Reader:
    context: Context
    statement: Statement
    target: Target
    sources: Mapping[str, str]
    """The columns of the source by their names in small letters; nothing where two have one."""

    def clauses(self, actions: Node, group: str, offset: int) -> list[Clause]:
        found = []
        for at, action in enumerate(listed(actions)):
            condition = optional(action.condition())
            taken = None if condition is None else self.context.plans.column(condition)
            found.append(Clause(offset + at, group, taken, self._values(action)))
        return found

    def _values(self, action: Node) -> dict[str, Column] | None:
        name, columns = kind(action), self.target.columns
        if name == "DeleteAction":
            return None
        if name in ("UpdateStarAction", "InsertStarAction"):
            values = self._same_names()
        elif name in ("UpdateAction", "InsertAction"):
            old = {each: fn.col(f"{OLD}{at}") for at, each in enumerate(columns.names)}
            before = None if name in _INSERTS else old.__getitem__
            assignments = action.assignments()
            values = assigned_values(self.context, self.statement, assignments, self.target, before)
        else:
            raise UnsupportedFeature(f"MERGE with {name}")
        if name in _INSERTS:
            left_out = [each for each in self.target.defaults if each not in values]
            values |= {each: self.target.default(each) for each in left_out}
            keys = [each.partition(".")[0] for each in self.target.record_key]
            missing = [each for each in keys if each not in values]
            if missing:
                told = f"the INSERT gives no value for {missing[0]}, the table's record key,"
                raise self.statement.wrong(action, told)
        return values

    def _same_names(self) -> dict[str, Column]:
        """The columns of the source that the target has as well."""
        names = [each for each in self.target.columns.names if each.lower() in self.sources]
        if not names:
            raise InvalidInput("the source of the MERGE has no column of the target")
        for each in names:
            if not self.sources[each.lower()]:
                place = relation_under(self.statement.plan.sourceTable())
                raise self.statement.wrong(place, f"the source has several columns {each!r},")
        return {each: fn.col(self.sources[each.lower()]) for each in names}


def worked_out(side: DataFrame, clauses: list[Clause]) -> DataFrame:
    """One side of the join with what the clauses for its lonely rows say."""
    extra = []
    for number, clause in enumerate(clauses):
        values = {}
        for at, (name, value) in enumerate((clause.values or {}).items()):
            alias = f"__lakedex_{clause.number}_{at}"
            extra.append(value.alias(alias))
            values[name] = fn.col(alias)
        condition = clause.condition
        if condition is not None:
            alias = f"__lakedex_{clause.number}_if"
            extra.append(condition.alias(alias))
            condition = fn.col(alias)
        kept = None if clause.values is None else values
        clauses[number] = Clause(clause.number, clause.group, condition, kept)
    return side.select("*", *extra) if extra else side
