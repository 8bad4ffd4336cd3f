"""How a table names the folders of new files, where it once named them otherwise.

Four properties of a table, beside those of Hudi, say so. They never change how older files are
found: every file keeps its place.

    lakedex.partition.new.fields        the partition columns of new files, some of the table's own
    lakedex.partition.new.dateformat    the pattern of folders that are formatted times
    lakedex.partition.hashed.folders    so many folders, one of which comes before each partition
    lakedex.partition.roots             other roots, below one of which each new partition is
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakedex.config import keys
from lakedex.config.option_values import NumberOption
from lakedex.config.table_config import TableConfig
from lakedex.errors import InvalidInput

LAYOUT_PROPERTIES = (
    keys.NEW_PARTITION_FIELDS,
    keys.NEW_PARTITION_FORMAT,
    keys.HASHED_FOLDERS,
    keys.OTHER_ROOTS,
)
_FOLDERS = NumberOption(keys.HASHED_FOLDERS, "0", least=2, most=1 << 16)
_OUTPUT = "output.dateformat"
_FEWEST_FIELDS = 2


def check_slash_dates(config: TableConfig) -> None:
    """Refuse slash-separated dates where folders could be mistaken for those of other columns.

    Raises:
        InvalidInput: The table has hive-style or url-encoded folders, formatted times, or another
            number of partition columns than one.
    """
    if not config.slash_separated_dates:
        return
    problem = None
    if config.hive_style_partitioning:
        problem = f"{keys.HIVE_STYLE_PARTITIONING}=true"
    elif config.url_encode_partitioning:
        problem = f"{keys.URL_ENCODE_PARTITIONING}=true"
    elif len(config.partition_fields) != 1:
        shown = ", ".join(config.partition_fields) or "none"
        problem = f"other than one partition column ({shown})"
    elif config.timebased_keygen:
        problem = "time-based folders"
    if problem is not None:
        raise InvalidInput(f"{keys.SLASH_SEPARATED_DATES}=true does not go with {problem}")


@dataclass(frozen=True, slots=True)
class NewLayout:
    """The folders of new files; what is None or 0 is as it always was.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9",
        ...      "hoodie.table.partition.fields": "org_id,datestr",
        ...      "lakedex.partition.new.fields": "org_id"}, "hoodie.properties")
        >>> NewLayout.of(config).fields
        ('org_id',)
    """

    fields: tuple[str, ...] | None = None
    date_format: str | None = None
    hashed_folders: int = 0
    roots: int = 0
    """How many other roots there are."""

    @classmethod
    def of(cls, config: TableConfig) -> NewLayout:
        """The layout in the properties of a table.

        Raises:
            InvalidInput: a property is wrong, or would let other engines misread the folders.
        """
        given = config.raw
        names = given.get(keys.NEW_PARTITION_FIELDS)
        fields = None
        if names is not None:
            fields = tuple(name.strip() for name in names.split(",") if name.strip())
        folders = 0 if keys.HASHED_FOLDERS not in given else _FOLDERS.value(given)
        roots = len([each for each in given.get(keys.OTHER_ROOTS, "").split(",") if each.strip()])
        found = cls(fields, given.get(keys.NEW_PARTITION_FORMAT), folders, roots)
        found._check(config)
        return found

    def applied(self, config: TableConfig) -> TableConfig:
        """The properties of a table as they name folders of new files."""
        if self.fields is not None:
            kinds = dict(zip(config.partition_fields, config.partition_kinds, strict=True))
            config = replace(
                config,
                partition_fields=self.fields,
                partition_kinds=tuple(kinds[name] for name in self.fields),
            )
        if self.date_format is not None:
            changed = {**config.timebased_keygen, _OUTPUT: self.date_format}
            config = replace(config, timebased_keygen=changed)
        return config

    def _check(self, config: TableConfig) -> None:
        known = config.partition_fields
        if self.fields is not None:
            kept = tuple(name for name in known if name in self.fields)
            if not self.fields or kept != self.fields or kept == known:
                raise InvalidInput(
                    f"{keys.NEW_PARTITION_FIELDS}={','.join(self.fields)!r}: new files of table "
                    f"{config.name} can be partitioned by some of {', '.join(known) or 'nothing'}, "
                    "in that order; other engines could not read other folders"
                )
        if self.date_format is not None and _OUTPUT not in config.timebased_keygen:
            raise InvalidInput(
                f"{keys.NEW_PARTITION_FORMAT} is for folders that are formatted times, which "
                f"table {config.name} does not have"
            )
        if self.hashed_folders:
            self._check_hashed(config)
        if self.roots and not known:
            raise InvalidInput(
                f"{keys.OTHER_ROOTS}: a partition as a whole is below one root, and table "
                f"{config.name} has no partition columns"
            )

    def _check_hashed(self, config: TableConfig) -> None:
        """Other engines take folders for values where there are as many of them as columns."""
        known = config.partition_fields
        levels = len(known if self.fields is None else self.fields) + 1
        if len(known) < _FEWEST_FIELDS or levels == len(known):
            raise InvalidInput(
                f"{keys.HASHED_FOLDERS}: other engines would take the folder for a value of a "
                f"partition column of table {config.name} ({', '.join(known) or 'none'}); it takes "
                "two columns or more, and new files that keep them all"
            )
