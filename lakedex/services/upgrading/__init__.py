"""Takes a table of an older version to version 9, and builds its metadata table again."""

from __future__ import annotations

from lakedex.services.upgrading.runner import upgrade_table
from lakedex.services.upgrading.state import UpgradeReport

__all__ = ["UpgradeReport", "upgrade_table"]
