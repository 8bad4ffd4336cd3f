"""Tables on an object store in a session that lacks the library that Spark needs for it."""

from __future__ import annotations

import pytest

from tests.unit.storage.conftest import BUCKET, moto  # noqa: F401 - a fixture

pytestmark = pytest.mark.s3


@pytest.mark.parametrize(("scheme", "table_type"), [("s3", "cow"), ("s3a", "mor")])
def test_a_store_that_spark_does_not_reach_is_read_by_lakedex(
    lake,
    spark,
    setting,
    moto,  # noqa: F811 - the fixture
    scheme,
    table_type,
):
    setting("fs.s3a.access.key", moto.options["aws_access_key_id"])
    setting("fs.s3a.secret.key", moto.options["aws_secret_access_key"])
    setting("fs.s3a.endpoint", moto.endpoint)
    setting("fs.s3a.endpoint.region", "us-east-1")
    setting("fs.s3a.path.style.access", "true")
    name, url = f"far_{scheme}", f"{scheme}://{BUCKET}/far_{scheme}"
    table = lake.create_table(
        name,
        "id long, p long",
        path=url,
        record_key="id",
        partition_by="p",
        table_type=table_type,
    )
    try:
        table.insert(spark.range(30).selectExpr("id", "id % 3 as p"))
        assert table.to_df().count() == 30
        query = f"select id from {name} where p = 1 and id > 20"
        assert sorted(row.id for row in spark.sql(query).collect()) == [22, 25, 28]
        assert len(lake.explain(query).files) == 1
    finally:
        spark.sql(f"drop table {name}")
