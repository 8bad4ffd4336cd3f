"""Which indexes to create and which to drop, from what queries have asked a table for."""

from lakedex.services.advising.advice import Advice, Proposal
from lakedex.services.advising.advisor import advise_table, joined_advice

__all__ = ["Advice", "Proposal", "advise_table", "joined_advice"]
