"""Verifying: every entry of every index held against the data of the table."""

from lakedex.services.verifying.check import Check, FileRows, Subject, VerifyKind
from lakedex.services.verifying.progress import Listener
from lakedex.services.verifying.registry import KINDS
from lakedex.services.verifying.report import Problem, ProblemKind, VerifyReport
from lakedex.services.verifying.runner import verify

__all__ = [
    "KINDS",
    "Check",
    "FileRows",
    "Listener",
    "Problem",
    "ProblemKind",
    "Subject",
    "VerifyKind",
    "VerifyReport",
    "verify",
]
