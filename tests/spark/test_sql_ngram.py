"""ngram indexes by SQL: which files LIKE, ILIKE, RLIKE and functions of strings read."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidInput

FILES = 100
ROWS = 1000


@pytest.fixture(scope="module")
def logs(lake, spark, tmp_path_factory):
    """A table of log lines, a hundred files of ten lines."""
    folder = tmp_path_factory.mktemp("ngram")
    spark.sql(
        "CREATE TABLE logs_ng (id bigint, message string, day string) USING hudi "
        "TBLPROPERTIES (primaryKey='id') PARTITIONED BY (day) "
        f"LOCATION '{folder}/logs'"
    )
    lines = spark.range(0, ROWS, 1, 2).selectExpr(
        "id",
        "concat('Host-', hex(id * 7919), ' sent ', id * 31, ' bytes to disk ', id div 100) message",
        f"concat('d', id % {FILES}) day",
    )
    table = lake.table("logs_ng")
    table.bulk_insert(lines)
    spark.sql("CREATE INDEX grams ON logs_ng USING ngram(message) OPTIONS (bits = '100000')")
    return table


CONDITIONS = {
    "message LIKE '%sent 11997 bytes%'": [387],
    "message LIKE 'Host-2EC34D sent%'": [387],
    "message LIKE '%-2EC34D %bytes%'": [387],
    "message ILIKE '%HOST-2ec34d S%'": [387],
    "lower(message) LIKE '%-2ec34d sent%'": [387],
    "message RLIKE 'sent 1199[67] bytes'": [387],
    "message RLIKE '-2EC34D sent|-2EE23C sent'": [387, 388],
    "contains(message, '2EC34D sent 11997')": [387],
    "startswith(message, 'Host-2EC34D s')": [387],
    "message = 'Host-2EC34D sent 11997 bytes to disk 3'": [387],
    "message IN ('Host-2EC34D sent 11997 bytes to disk 3', 'x', null)": [387],
    "message LIKE '%2EC34D s%' AND id > 5": [387],
    "message LIKE '%2EC34D s%' OR endswith(message, '-2EE23C')": [387],
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_few_files_are_read(lake, spark, logs, condition):
    query = f"SELECT id FROM logs_ng WHERE {condition}"
    assert sorted(row["id"] for row in spark.sql(query).collect()) == CONDITIONS[condition]
    report = lake.explain(query)
    (step,) = [each for each in report.steps if each.index == "ngram_index_grams"]
    assert step.before == FILES
    assert step.after <= 12, (condition, step)
    assert "n-grams" in step.reason


@pytest.mark.parametrize(
    "condition",
    [
        "message NOT LIKE '%11997%'",
        "message LIKE '%is%'",
        "upper(message) LIKE '%2EC34D%'",
        "message RLIKE '(?i)host-2ec34d'",
        "message LIKE '%2EC34D s%' OR id = 3",
    ],
)
def test_what_has_no_grams_reads_all_files_and_says_so(lake, spark, logs, condition):
    query = f"SELECT id FROM logs_ng WHERE {condition}"
    assert spark.sql(query).count() > 0
    (step,) = [each for each in lake.explain(query).steps if each.index == "ngram_index_grams"]
    assert "no condition on message with a constant part of 3 bytes or more" in step.reason


def test_it_is_listed_and_wrong_ones_are_refused(lake, spark, logs):
    shown = {row["index_name"]: row for row in spark.sql("SHOW INDEXES FROM logs_ng").collect()}
    row = shown["ngram_index_grams"]
    assert (row["col_name"], row["index_type"]) == ("message", "ngram")
    lake.sql("CREATE INDEX IF NOT EXISTS grams ON logs_ng USING ngram(message)")
    for statement, message in {
        "CREATE INDEX g2 ON logs_ng USING ngram(id)": "of type int64 cannot have an ngram index",
        "CREATE INDEX g2 ON logs_ng USING ngram(message, day)": "on 2 columns: it takes one",
        "CREATE INDEX g2 ON logs_ng USING ngram(message) OPTIONS (n = '9')": "from 2 to 8",
        "CREATE INDEX grams ON logs_ng USING ngram(message)": "has the index",
    }.items():
        with pytest.raises(InvalidInput, match=message):
            lake.sql(statement)
    spark.sql("UPDATE logs_ng SET message = 'a needle' WHERE id = 8")
    query = "SELECT id FROM logs_ng WHERE message LIKE '%needle%'"
    assert [row["id"] for row in spark.sql(query).collect()] == [8]
    assert len(lake.explain(query).files) == 1
    assert logs.verify().ok
