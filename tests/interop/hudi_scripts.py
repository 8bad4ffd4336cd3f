"""Scripts of Hudi SQL as its documentation teaches them, for Hudi itself and for lakedex.

`{t}` is the table, `{using}` the provider, `{first}` the instant of its first commit. The rows of
statements that begin with SELECT or SHOW PARTITIONS are compared; all others only run.
"""

from __future__ import annotations

from lakedex.expr.sql_lexer import tokenise

QUICK_START = """
-- No key is named: every row gets one of its own.
CREATE TABLE {t} (ts BIGINT, uuid STRING, rider STRING, driver STRING, fare DOUBLE, city STRING)
USING {using} PARTITIONED BY (city);
INSERT INTO {t} VALUES
(1695159649087,'334e26e9','rider-A','driver-K',19.10,'san_francisco'),
(1695091554788,'e96c4396','rider-C','driver-M',27.70 ,'san_francisco'),
(1695046462179,'9909a8b1','rider-D','driver-L',33.90 ,'san_francisco'),
(1695516137016,'e3cf430c','rider-F','driver-P',34.15,'sao_paulo'    ),
(1695115999911,'c8abbe79','rider-J','driver-T',17.85,'chennai');
SELECT ts, fare, rider, driver, city FROM {t} WHERE fare > 20.0 ORDER BY fare;
UPDATE {t} SET fare = 25.0 WHERE rider = 'rider-D';
MERGE INTO {t} AS target
USING (SELECT 1695091554788 AS ts, 'e96c4396' AS uuid, 'rider-C' AS rider, 'driver-M' AS driver,
         -2.70D AS fare, 'san_francisco' AS city
       UNION ALL SELECT 1695530237068, '3f3d9565', 'rider-K', 'driver-U', 64.20D, 'san_francisco')
  AS source
ON target.uuid = source.uuid
WHEN MATCHED THEN UPDATE SET target.fare = target.fare + source.fare
WHEN NOT MATCHED THEN INSERT *;
DELETE FROM {t} WHERE uuid = '3f3d9565';
SELECT uuid, round(fare, 2), city FROM {t} ORDER BY uuid;
SELECT uuid, fare FROM {t} TIMESTAMP AS OF '{first}' WHERE fare > 20.0 ORDER BY uuid;
SHOW PARTITIONS {t}
"""

TRIPS = """
CREATE TABLE {t} (ts BIGINT, uuid STRING, rider STRING, driver STRING, fare DOUBLE, city STRING)
  USING {using} PARTITIONED BY (city)
  OPTIONS (type = 'cow', primaryKey = 'uuid', preCombineField = 'ts');
INSERT INTO {t} VALUES
  (1695159649087, 'u1', 'rider-A', 'driver-K', 19.10, 'san_francisco'),
  (1695091554788, 'u2', 'rider-C', 'driver-M', 27.70, 'san_francisco'),
  (1695046462179, 'u3', 'rider-D', 'driver-L', 33.90, 'san_francisco'),
  (1695516137016, 'u4', 'rider-F', 'driver-P', 34.15, 'sao_paulo'),
  (1695115999911, 'u5', 'rider-J', 'driver-T', 17.85, 'chennai');
UPDATE {t} SET fare = fare + 25.0, ts = '1695516137999' WHERE rider = 'rider-D';
MERGE INTO {t} AS target
  USING (SELECT 1695516137999 AS ts, 'u4' AS uuid, 'rider-F' AS rider, 'driver-P' AS driver,
           1.5D AS fare, 'sao_paulo' AS city
         UNION ALL SELECT 1L, 'u6', 'rider-N', 'driver-N', 2.5D, 'chennai') AS source
  ON target.uuid = source.uuid AND target.city = source.city
  WHEN MATCHED THEN UPDATE SET fare = target.fare + source.fare, ts = source.ts
  WHEN NOT MATCHED THEN INSERT *;
DELETE FROM {t} WHERE uuid = 'u2';
SELECT uuid, rider, fare, ts, city FROM {t} ORDER BY uuid;
INSERT OVERWRITE {t} PARTITION (city = 'chennai')
  SELECT 9, 'u7', 'rider-X', 'driver-X', 1.0;
SELECT uuid, city FROM {t} ORDER BY uuid;
SET hoodie.datasource.overwrite.mode = dynamic;
INSERT OVERWRITE {t} SELECT 10L, 'u8', 'rider-Y', 'driver-Y', 2.0D, 'sao_paulo';
RESET hoodie.datasource.overwrite.mode;
SELECT uuid, city FROM {t} ORDER BY uuid;
ALTER TABLE {t} DROP PARTITION (city = 'chennai');
SELECT uuid, fare FROM {t} WHERE city <> 'chennai' AND fare BETWEEN 1 AND 30 ORDER BY uuid
"""

ACCOUNTS = """
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts BIGINT) USING {using}
  TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO {t} SELECT 1 AS id, 'a1' AS name, 20.0D AS price, 1000L AS ts;
INSERT INTO {t} VALUES (2, 'a2', 10.0, 1000), (3, 'a3', 30.0, 1000), (1, 'late', 1.0, 999);
INSERT INTO {t} (id, name, price, ts) VALUES (3, 'a3b', 31.0, 1001);
RESET hoodie.spark.sql.insert.into.operation;
SELECT id, name, price, ts FROM {t} ORDER BY id;
MERGE INTO {t} t
  USING (SELECT 1 AS id, 'm1' AS name, 0.0D AS price, 1100L AS ts, 'delete' AS flag
         UNION ALL SELECT 2, 'm2', 12.5D, 1100L, 'update'
         UNION ALL SELECT 4, 'm4', 44.0D, 1100L, 'insert') s
  ON t.id = s.id
  WHEN MATCHED AND s.flag = 'delete' THEN DELETE
  WHEN MATCHED AND s.flag = 'update'
    THEN UPDATE SET id = s.id, name = s.name, price = s.price, ts = s.ts
  WHEN NOT MATCHED AND s.flag = 'insert'
    THEN INSERT (id, name, price, ts) VALUES (s.id, s.name, s.price, s.ts);
SELECT id, name, price, ts FROM {t} ORDER BY id;
UPDATE {t} SET price = price * 2, ts = 1111 WHERE id = 2;
DELETE FROM {t} WHERE id % 2 = 0 AND price > 40;
SELECT id, name, price, ts FROM {t} ORDER BY id;
SELECT id, name FROM hudi_table_changes('{t}', 'latest_state', 'earliest') ORDER BY id
"""

COLUMNS = """
CREATE TABLE {t} (id INT, a INT, b STRING, s STRUCT<x: INT, y: STRING>, n INT, ts BIGINT)
  USING {using} TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 1, 'one', struct(1, 'p'), 10, 1), (2, 2, 'two', struct(2, 'q'), 20, 1);
SET hoodie.schema.on.read.enable = true;
ALTER TABLE {t} RENAME COLUMN b TO bb;
ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT;
ALTER TABLE {t} ALTER COLUMN n TYPE STRING;
ALTER TABLE {t} ADD COLUMNS (c STRING AFTER a);
ALTER TABLE {t} RENAME COLUMN s.y TO yy;
ALTER TABLE {t} ALTER COLUMN bb AFTER ts;
UPDATE {t} SET bb = 'uno', c = 'new', n = 'eleven', ts = 2 WHERE id = 1;
ALTER TABLE {t} DROP COLUMN c;
SELECT id, a, bb, s.x, s.yy, n, ts FROM {t} ORDER BY id
"""


ORDERS = """
CREATE TABLE {t} (order_id BIGINT, line INT, customer STRING, amount DECIMAL(12,2), qty INT,
  attrs MAP<STRING, STRING>, tags ARRAY<STRING>, addr STRUCT<street: STRING, zip: INT>,
  updated_at TIMESTAMP, region STRING, dt DATE) USING {using}
  TBLPROPERTIES (type = 'mor', primaryKey = 'order_id,line', preCombineField = 'updated_at',
    'hoodie.datasource.write.hive_style_partitioning' = 'true')
  PARTITIONED BY (region, dt);
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO {t} VALUES
  (1, 1, 'ann', 10.50, 1, map('k', 'v'), array('a', 'b'), named_struct('street', 'Main', 'zip', 1),
   TIMESTAMP'2024-01-01 10:00:00', 'eu', DATE'2024-01-01'),
  (1, 2, 'ann', 20.25, 2, map(), array(), null, TIMESTAMP'2024-01-01 10:00:00', 'eu',
   DATE'2024-01-01'),
  (2, 1, 'bob', 99.99, 3, null, null, named_struct('street', null, 'zip', 2000),
   TIMESTAMP'2024-01-02 10:00:00', 'us', DATE'2024-01-02');
INSERT INTO {t} PARTITION (region = 'eu', dt = '2024-01-03')
  SELECT 3, 1, 'cid', 5, 1, map('x', 'y'), array('z'), null, TIMESTAMP'2024-01-03 00:00:00';
INSERT INTO {t} PARTITION (region = 'us', dt)
  SELECT 4, 1, 'dan', 7.777, 1, null, array('q'), null, TIMESTAMP'2024-01-04 00:00:00',
    DATE'2024-01-04';
INSERT INTO {t} (order_id, line, customer, amount, updated_at, region, dt)
  VALUES (6, 1, 'fay', 1.1, TIMESTAMP'2024-01-06 00:00:00', 'ap', DATE'2024-01-06');
INSERT INTO {t} (order_id, line, customer, updated_at)
  VALUES (8, 1, 'nobody', TIMESTAMP'2024-01-06 00:00:00');
RESET hoodie.spark.sql.insert.into.operation;
SHOW PARTITIONS {t};
SHOW PARTITIONS {t} PARTITION (region = 'us');
MERGE INTO {t} t USING (
    SELECT 1L AS order_id, 1 AS line, 'ann2' AS customer, CAST(11.50 AS DECIMAL(12,2)) AS amount,
      TIMESTAMP'2024-02-01 00:00:00' AS updated_at, 'eu' AS region, DATE'2024-01-01' AS dt
    UNION ALL SELECT 7L, 1, 'gil', CAST(70 AS DECIMAL(12,2)), TIMESTAMP'2024-02-01 00:00:00', 'eu',
      DATE'2024-02-01') s
  ON t.order_id = s.order_id AND t.line = s.line
  WHEN MATCHED THEN UPDATE SET customer = s.customer, updated_at = s.updated_at
  WHEN NOT MATCHED THEN INSERT (order_id, line, customer, amount, updated_at, region, dt)
    VALUES (s.order_id, s.line, s.customer, s.amount, s.updated_at, s.region, s.dt);
UPDATE {t} SET addr = named_struct('street', 'New', 'zip', addr.zip), tags = array('u'),
  updated_at = TIMESTAMP'2024-03-01 00:00:00' WHERE order_id = 1;
UPDATE {t} SET amount = amount * 2, updated_at = updated_at + INTERVAL 1 DAY
  WHERE amount > 50 AND region IN ('us', 'eu');
DELETE FROM {t} WHERE dt BETWEEN DATE'2024-01-05' AND DATE'2024-01-06';
SELECT order_id, line, customer, amount, qty, map_entries(attrs), tags, addr, updated_at, region, dt
  FROM {t} ORDER BY order_id, line;
SELECT order_id, amount FROM {t} TIMESTAMP AS OF '{first}' ORDER BY order_id, line;
SELECT order_id, line FROM {t} TIMESTAMP AS OF '2099-01-01 10:00:00.123' ORDER BY order_id, line;
SELECT order_id, customer FROM hudi_table_changes('{t}', 'latest_state', '{first}')
  ORDER BY order_id, line;
INSERT OVERWRITE {t} PARTITION (region = 'eu', dt = '2024-01-01')
  SELECT 10, 1, 'new', 1, 1, null, null, null, TIMESTAMP'2024-05-01 00:00:00';
SELECT order_id, line, region, dt FROM {t} ORDER BY order_id, line
"""

LEDGER = """
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts BIGINT) USING {using}
  OPTIONS ('hoodie.datasource.write.recordkey.field' = 'id',
    'hoodie.datasource.write.precombine.field' = 'ts', 'hoodie.table.cdc.enabled' = 'true',
    'hoodie.table.cdc.supplemental.logging.mode' = 'DATA_BEFORE_AFTER')
  CLUSTERED BY (id) INTO 4 BUCKETS;
INSERT INTO {t} VALUES (1, 'a', 1.0, 1), (2, 'b', 2.0, 1), (3, 'c', 3.0, 1);
UPDATE {t} SET price = 11.0, ts = 2 WHERE id = 1;
DELETE FROM {t} WHERE id = 2;
MERGE INTO {t} t USING (SELECT 3 AS id, 'cc' AS name, 33.0D AS price, 3L AS ts
    UNION ALL SELECT 4, 'd', 4.0D, 3L UNION ALL SELECT 4, 'dd', 4.4D, 4L) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
SELECT op, get_json_object(before, '$.id') b, get_json_object(before, '$.price') bp,
    get_json_object(after, '$.id') a, get_json_object(after, '$.price') ap
  FROM hudi_table_changes('{t}', 'cdc', 'earliest') ORDER BY ts_ms, op, b, a;
SELECT op, get_json_object(before, '$.id') b, get_json_object(after, '$.id') a
  FROM hudi_table_changes('{t}', 'cdc', '{first}') ORDER BY ts_ms, op, b, a;
UPDATE {t} SET name = concat(name, '!'), ts = ts + 1
  WHERE id IN (SELECT id FROM {t} WHERE price > 10);
MERGE INTO {t} t USING (SELECT 1 AS id, 'old' AS name, 0.0D AS price, 1L AS ts) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET *;
INSERT INTO {t} SELECT id + 100, name, price, ts FROM {t};
SELECT id, name, price, ts FROM {t} ORDER BY id
"""


def statements(script: str) -> list[str]:
    """The statements of a script."""
    found, begin = [], 0
    for token in tokenise(script):
        if token.keyword == ";" or token.start == len(script):
            found.append(script[begin : token.start].strip())
            begin = token.end
    return [text for text in found if text]
