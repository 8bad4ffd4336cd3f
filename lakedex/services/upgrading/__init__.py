"""Takes a table of an older version to version 9, and builds its metadata table again."""

from __future__ import annotations

from lakedex.services.upgrading.runner import UpgradeReport, upgrade_table

__all__ = ["UpgradeReport", "upgrade_table"]
