"""What a caller may choose for a clustering: an order of rows, and the file slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakedex.errors import InvalidInput
from lakedex.services.clustering.selection import Selection
from lakedex.table import Snapshot
from lakedex.write.layout.order import RowOrder, Strategy, column_names
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import Target


def table_order(
    snapshot: Snapshot, target: Target, names: Sequence[object], strategy: str | Strategy
) -> RowOrder:
    """The order by some columns and expression indexes of a table.

    Raises:
        InvalidInput: one of them is not there, or has no order; or the strategy is wrong.
    """
    stored = StoredSchema.of(snapshot)
    plan = plan_metadata(snapshot, target.options.metadata, stored.columns, rows=0)
    full = WriteSchema.of(stored.columns, stored).full
    return RowOrder.of(names, Strategy.parse(strategy), full, plan.maintained)


@dataclass(frozen=True, slots=True)
class Asked:
    """An order, and what to bring into it."""

    order: RowOrder
    selection: Selection

    @classmethod
    def of(
        cls,
        target: Target,
        snapshot: Snapshot,
        by: str | Sequence[str],
        strategy: str | Strategy | None,
        where: str | None,
        time_zone: str,
    ) -> Asked:
        """What the arguments of a call ask for, and the table's options where they say nothing.

        Raises:
            InvalidInput: a column, the strategy or the condition is wrong.
        """
        layout = target.options.layout
        layout.require_kept_meta()
        layout.clustering_scope.require_known_classes()
        order = table_order(
            snapshot,
            target,
            column_names(by) or layout.clustering_columns or layout.write_columns,
            layout.strategy if strategy is None else strategy,
        )
        if where is not None and not isinstance(where, str):
            raise InvalidInput(f"where is a SQL condition as text, not {where!r}")
        selection = Selection(
            where=where,
            scope=layout.clustering_scope,
            time_zone=time_zone,
        )
        return cls(order, selection)
