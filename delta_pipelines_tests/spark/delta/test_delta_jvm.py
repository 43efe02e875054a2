"""How many calls go to the JVM, and that no answer waits for an acknowledgement."""

from functools import partial

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.query.analyzed_plan import analysed_plan
from delta_pipelines.delta.storage.folders import names_in, read_texts
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.spark.delta.test_delta_sessions import in_thread

ASKED = ("getTablesByName", "getTableMetadata", "databaseExists", "tableExists", "createTable")
"""Questions to the session catalog."""


def test_each_threads_connection_sends_long_answers_at_once(spark) -> None:
    def no_delay() -> list[bool]:
        socket = (
            spark.sparkContext._gateway.java_gateway_server.getCallbackClient()
            .getPerThreadConnection()
            .getSocket()
        )
        before = socket.getTcpNoDelay()
        Jvm(spark)
        return [before, socket.getTcpNoDelay()]

    assert in_thread(no_delay) == [False, True]
    assert in_thread(no_delay) == [False, True]


def test_a_thread_that_connected_before_the_server_of_callbacks_was_started_works_on(spark) -> None:
    """As one of several does when another merges first: py4j's new client does not know it."""

    def call_with_new_client() -> list[object]:
        gateway = spark.sparkContext._gateway
        server = gateway.java_gateway_server
        client = server.getCallbackClient()
        server.resetCallbackClient(client.getAddress(), client.getPort())
        return [
            server.getCallbackClient().getPerThreadConnection(),
            Jvm(spark).root.java.lang.Math.abs(-1),
        ]

    assert in_thread(call_with_new_client) == [None, 1]


def test_a_long_folder_is_listed_in_as_few_calls_as_a_short_one(
    spark, tmp_path, round_trips
) -> None:
    asked = []
    for count in (3, 300):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"a name {number} %").write_text("")
        names = names_in(spark, str(folder))
        assert sorted(names) == sorted(path.name for path in folder.iterdir())
        asked.append(len(round_trips(partial(names_in, spark, str(folder)))))
    assert asked[0] == asked[1] > 0


def test_files_are_read_while_they_are_small_together(spark, tmp_path) -> None:
    (tmp_path / "a").write_text("ä" * 5_000)
    (tmp_path / "b").write_text("")
    assert read_texts(spark, str(tmp_path), ["a", "b"], 10_000) == ["ä" * 5_000, ""]
    assert read_texts(spark, str(tmp_path), ["a", "b"], 9_999) is None


def test_tasks_are_not_sent_where_hadoops_settings_come_from(spark) -> None:
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    assert settings.get("io.file.buffer.size") == "65536"
    assert settings.getPropertySources("io.file.buffer.size") is None


def test_sparks_settings_survive_a_reload_of_hadoops_settings(spark) -> None:
    """As it does when a library brings defaults of its own; this one is 2 in Hadoop's."""
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    settings.reloadConfiguration()
    assert settings.get("mapreduce.fileoutputcommitter.algorithm.version") == "1"
    assert settings.get("spark.sql.warehouse.dir") is not None


def test_a_refresh_asks_the_catalog_for_a_table_twice(spark, schema, round_trips) -> None:
    """With the lease and with the transaction; the lease's place is a question of its own sort."""

    def refresh(salt: int) -> dict[str, int]:
        pipeline = Pipeline("asks", schema=schema)
        for name in ("a", "b"):
            pipeline.materialized_view(name, f"SELECT {salt} AS x")
        sent = round_trips(lambda: pipeline.run(spark, raise_on_error=True))
        asked = {what: sum(f"\n{what}\n" in one for one in sent) for what in ASKED}
        return {what: count for what, count in asked.items() if count}

    # Before a new table its schema is looked for too; once entered it is not looked at again.
    assert refresh(0) == {
        "databaseExists": 1 + 4 * 2,
        "tableExists": 2 * 2,
        "createTable": 2,
    }
    assert refresh(1) == {"databaseExists": 1, "getTableMetadata": 2 * 2}


def test_a_rerun_with_nothing_changed_takes_few_calls_for_each_dataset(
    spark, schema, round_trips
) -> None:
    def rerun(count: int) -> int:
        pipeline = Pipeline("few", schema=schema)
        for number in range(count):
            pipeline.materialized_view(f"t{number}", f"SELECT id, id * 2 AS n FROM range({number})")
        pipeline.run(spark, raise_on_error=True)
        return len(round_trips(lambda: pipeline.run(spark, raise_on_error=True)))

    # The threads that plan begin with some calls of their own.
    few, many = rerun(2), rerun(12)
    assert (many - few) / 10 <= 60


def test_a_query_of_many_literals_is_read_in_as_many_calls_as_one_of_few(
    spark, round_trips
) -> None:
    def read(count: int) -> int:
        literals = ", ".join(f"id + {number} AS c{number}" for number in range(count))
        frame = spark.sql(f"SELECT {literals} FROM range(3)")
        analysed_plan(spark, frame)
        return len(round_trips(partial(analysed_plan, spark, frame)))

    assert read(1) == read(20)
