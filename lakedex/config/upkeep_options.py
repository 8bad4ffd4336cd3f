"""The options of cleaning and archiving, with Hudi's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import write_option_names as options
from lakedex.config.option_values import FlagOption
from lakedex.config.scheduling_options import Trigger
from lakedex.errors import InvalidInput


class CleaningPolicy(Enum):
    """What decides how long an old version of a file group stays; the values are Hudi's words."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """When old file versions are removed, and which.

    Example:
        >>> chosen = CleaningOptions.resolve({"hoodie.cleaner.commits.retained": "3"})
        >>> chosen.commits, chosen.after_commits
        (3, 1)
    """

    automatic: bool = True
    """Whether a write looks after its commit for what is to be cleaned."""
    policy: CleaningPolicy = CleaningPolicy.COMMITS
    commits: int = 10
    hours: int = 24
    """Readers that began within so many hours find their files."""
    versions: int = 3
    after_commits: int = 5
    """How many commits make the next clean due.

    Hudi cleans after each one. A clean costs about half a small write, so it waits for as many
    commits as half of those that it retains, five at most: little more is kept than was asked for.
    """
    incremental: bool = True
    """Whether only partitions that changed since the last clean are looked at."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> CleaningOptions:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong.
        """
        commits = options.CLEAN_COMMITS.value(settings)
        after = options.CLEAN_AFTER_COMMITS.value(settings)
        if options.CLEAN_AFTER_COMMITS.given(settings) is None:
            after = max(1, min(after, commits // 2))
        return cls(
            automatic=_beside_writes(options.CLEAN_AUTOMATIC, settings),
            policy=CleaningPolicy(options.CLEAN_POLICY.value(settings)),
            commits=commits,
            hours=options.CLEAN_HOURS.value(settings),
            versions=options.CLEAN_VERSIONS.value(settings),
            after_commits=after,
            incremental=options.CLEAN_INCREMENTAL.value(settings),
        )


@dataclass(frozen=True, slots=True)
class ArchivingOptions:
    """When instants leave the active timeline.

    Example:
        >>> ArchivingOptions.resolve({"hoodie.keep.max.commits": "40"}).most
        40
        >>> ArchivingOptions.resolve({"hoodie.keep.max.commits": "10"}).least
        9
    """

    automatic: bool = True
    least: int = 20
    """So many commits stay in the active timeline."""
    most: int = 30
    """With more commits than that archiving is due."""
    files_a_level: int = 10
    """So many files of one level of the history are merged into one of the next."""
    beyond_savepoints: bool = False
    """Whether commits after a savepoint may go; the commit that it keeps stays."""
    delta_commits: int | None = 5
    """So many deltacommits since the last compaction stay, because the next one counts them; None
    where it is not due by their number."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> ArchivingOptions:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong, or fewer commits are to stay than must.
        """
        least, most = options.KEEP_LEAST.value(settings), options.KEEP_MOST.value(settings)
        # Of two limits of which one was chosen, the default of the other gives way.
        if options.KEEP_LEAST.given(settings) is None:
            least = min(least, max(most - 1, 1))
        elif options.KEEP_MOST.given(settings) is None:
            most = max(most, least + 1)
        if least >= most:
            raise InvalidInput(
                f"{options.KEEP_LEAST.name}={least} must be less than "
                f"{options.KEEP_MOST.name}={most}"
            )
        return cls(
            automatic=_beside_writes(options.ARCHIVE_AUTOMATIC, settings),
            least=least,
            most=most,
            files_a_level=options.HISTORY_BATCH.value(settings),
            beyond_savepoints=options.ARCHIVE_BEYOND_SAVEPOINT.value(settings),
            delta_commits=_counted_delta_commits(settings),
        )


def _counted_delta_commits(settings: Mapping[str, str]) -> int | None:
    trigger = Trigger(options.COMPACTION_TRIGGER.value(settings))
    is_counted = trigger in (Trigger.NUM_COMMITS, Trigger.NUM_AND_TIME)
    return options.COMPACT_AFTER_COMMITS.value(settings) if is_counted else None


def _beside_writes(option: FlagOption, settings: Mapping[str, str]) -> bool:
    """Whether a service runs after writes: all of them can be left to others at once."""
    return option.value(settings) and options.TABLE_SERVICES.value(settings)
