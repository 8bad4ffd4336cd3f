"""A program on a real two-executor Spark: index kinds of lakedex and of a user, by SQL.

usage: kinds_program.py <folder> <python of the executors>

The executors have neither lakedex nor the module of the user's kind. Prints what it saw.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import lakedex
from tests.support.index_kinds import user_kind

# Tables are so large that indexes are worth their cost.
DOMAIN = "SELECT id FROM users WHERE email LIKE '%@d7.org'"
PART = "SELECT id FROM users WHERE lower(note) LIKE '%note-17 %'"
KINDS = ("email_domain", "ngram")


def main(folder: Path, executor_python: str) -> None:
    os.environ["PYSPARK_PYTHON"] = executor_python
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    lake = lakedex.local(
        **{
            "spark.master": "local-cluster[2,1,768]",
            "spark.executor.memory": "768m",
            "spark.executor.cores": "1",
            "spark.driver.memory": "768m",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    spark = lake.spark
    spark.sparkContext.setLogLevel("OFF")
    user_kind()
    lake.sql(f"""
        CREATE TABLE users (id BIGINT, email STRING, note STRING, p STRING, ts BIGINT) USING hudi
        PARTITIONED BY (p) LOCATION '{folder / "users"}'
        TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', type = 'mor')""")
    users = lake.table("users")
    columns = (
        "id",
        "concat('u', id, '@D', id % 10, '.org') email",
        "concat('Note-', id, ' of ', id % 7) note",
        "concat('p', id % 100) p",
    )

    def rows(first: int, last: int, ts: int) -> object:
        return spark.range(first, last).selectExpr(*columns, f"{ts}L ts")

    users.bulk_insert(rows(0, 400, 1))
    lake.sql("CREATE INDEX by_domain ON users USING email_domain(email) OPTIONS (fold_case 'true')")
    users.create_index("grams", "note", using="ngram", options={"common": "0.3"})
    seen = [look(lake, users)]
    users.upsert(rows(395, 405, 2))
    users.delete("id = 17 AND p = 'p17'")
    lake.sql("UPDATE users SET email = 'moved@d7.org', ts = 3 WHERE id = 8")
    lake.sql("""
        MERGE INTO users t USING (SELECT 9L id, 'merged@d7.org' email, 'p9' p, 4L ts) s
        ON t.id = s.id AND t.p = s.p
        WHEN MATCHED THEN UPDATE SET email = s.email, ts = s.ts""")
    seen.append(look(lake, users))
    lake.sql("CALL run_compaction(table => 'users', op => 'scheduleandexecute')")
    users.cluster(by="id", strategy="linear")
    lake.sql("CALL run_clean(table => 'users', retain_commits => 1)")
    seen.append(look(lake, users))
    lake.sql("INSERT OVERWRITE users PARTITION (p = 'p5') SELECT 5, 'x@D7.ORG', 'Note-17 again', 9")
    seen.append(look(lake, users))
    shown = [row.asDict() for row in lake.sql("SHOW INDEXES FROM users").collect()]
    kinds = [kind for kind in KINDS if any(kind in map(str, row.values()) for row in shown)]
    lake.sql("REFRESH INDEX by_domain ON users")
    lake.sql("DROP INDEX by_domain ON users")
    lake.sql("DROP INDEX grams ON users")
    print(
        json.dumps({"seen": seen, "kinds": kinds, "left": [str(each) for each in users.indexes()]})
    )
    spark.stop()


def look(lake, table) -> dict:
    """What queries find with indexes, and by which of them; and what verify says."""
    found = {}
    for query in (DOMAIN, PART):
        steps = lake.explain(query).steps
        own = [step for step in steps if step.kind in KINDS and step.after < step.before]
        found[query] = {
            "rows": sorted(row["id"] for row in lake.sql(query).collect()),
            "kinds": [step.kind for step in own],
        }
    report = table.verify()
    return {"found": found, "problems": [str(each) for each in report.problems]}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
