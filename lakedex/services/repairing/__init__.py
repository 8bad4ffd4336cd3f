"""Makes indexes agree with the data again."""

from lakedex.services.repairing.report import RepairReport
from lakedex.services.repairing.runner import repair_table

__all__ = ["RepairReport", "repair_table"]
