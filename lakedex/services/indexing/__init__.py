"""Building indexes while writers go on, after RFC-63 and RFC-8.

    start    under the lock: an `indexing` instant, empty file groups, the properties say `inflight`
    snapshot under the lock: the table as it is, and a later time of the metadata table
    read     the data of the snapshot, and base files of that time; writers go on
    switch   under the lock: the index counts, if every commit since the snapshot wrote to it too

From the start on every write of lakedex puts its own changes into the file groups as well. What
completes after a snapshot lies above its base files, and what completed before it is in
them. A commit that did not write to the index, as it began before the start or is another
engine's, makes another snapshot necessary: only file slices that changed are read again.
"""

from lakedex.services.indexing.claims import adopt_plan, start_build, take_up_build
from lakedex.services.indexing.runner import BackgroundBuild, build_in_background

__all__ = [
    "BackgroundBuild",
    "adopt_plan",
    "build_in_background",
    "start_build",
    "take_up_build",
]
