"""Secondary indexes: values of any column to record keys, and through those to file groups."""

from lakedex.index.kinds.secondary.coverage import groups_not_kept_up
from lakedex.index.kinds.secondary.lookup import SecondaryIndex

__all__ = ["SecondaryIndex", "groups_not_kept_up"]
