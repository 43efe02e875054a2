"""The target of a merge stays where it is: no row of it goes through a shuffle."""

import pytest
from pyspark.sql import functions as F

from delta_pipelines.merge import broadcast, merge_into
from delta_pipelines_tests.spark.merge.oracle import DV, PLAIN
from delta_pipelines_tests.support.pipelines import bytes_shuffled

ROWS, WIDTH = 20_000, 200
BROADCAST = "spark.delta_pipelines.merge.broadcastBytes"


def upsert(spark, path):
    """Every fourth row changes and some are new; how many bytes went through shuffles."""
    source = spark.range(0, ROWS + 400, 4).withColumn("text", F.lit("new"))
    merge = merge_into(spark, path, source, "t.id = s.id", executor="classic")
    with bytes_shuffled(spark) as shuffled:
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert spark.read.format("delta").load(path).where("text = 'new'").count() == ROWS // 4 + 100
    return shuffled.count


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_a_source_that_can_be_broadcast_leaves_the_target_where_it_is(spark, tmp_path, layout):
    session = spark.newSession()
    vectors = str(layout == DV).lower()
    text = F.substring(F.concat(*[F.sha2(F.concat("id", F.lit(n)), 256) for n in "abcd"]), 1, WIDTH)
    rows = session.range(0, ROWS, numPartitions=4).withColumn("text", text)
    for name in ("t", "shuffled"):
        writer = rows.write.format("delta").option("delta.enableDeletionVectors", vectors)
        writer.save(str(tmp_path / name))
    least = ROWS * WIDTH // 4  # what any shuffle of the target would write, compressed
    assert upsert(session, str(tmp_path / "t")) < least / 4
    if layout == PLAIN:  # the same where both sides have to be shuffled: the ruler works
        session.conf.set(BROADCAST, "0")
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        session.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "-1")
        assert upsert(session, str(tmp_path / "shuffled")) > least


@pytest.mark.parametrize("kept", ["copied", "in its files"])
def test_wide_rows_are_not_broadcast_by_their_number(spark, tmp_path, kept):
    session = spark.newSession()
    session.conf.set(BROADCAST, str(8 * 1024 * 1024))
    wide = F.concat(*[F.sha2(F.concat("id", F.lit(n)), 256) for n in range(16)])
    rows = session.range(0, 12_000, numPartitions=4).withColumn("text", wide)  # 12 MB of texts
    path, source = str(tmp_path / "t"), str(tmp_path / "source")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    rows.write.format("delta" if kept == "in its files" else "parquet").save(source)
    read = session.read.format("delta" if kept == "in its files" else "parquet").load(source)
    hinted = []
    with pytest.MonkeyPatch.context() as spy:
        spy.setattr(broadcast.F, "broadcast", lambda frame: hinted.append(frame.columns) or frame)
        merge = merge_into(session, path, read, "t.id = s.id", executor="classic")
        merge = merge.when_matched_update_all(skip_unchanged=True)
        merge.execute()
        assert [columns for columns in hinted if "text" in columns] == []
        session.conf.set(BROADCAST, str(64 * 1024 * 1024))
        merge.execute()
        assert [columns for columns in hinted if "text" in columns]
