"""What an index that does not exist yet would do for a query: counted in the data, or sampled."""

from lakedex.services.assuming.report import with_assumed

__all__ = ["with_assumed"]
