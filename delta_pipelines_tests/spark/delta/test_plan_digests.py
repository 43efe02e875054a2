"""One query has one digest whenever it is analysed, and two queries have two."""

import datetime
import decimal
import random
import string

import pytest
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import isolated_session
from delta_pipelines.delta.query.analyzed_plan import analysed_plan
from delta_pipelines.delta.query.plan_text import FIRST_ID
from delta_pipelines.delta.startup.expression_ids import number_from_high

VALUES = [
    *(1, 2, True, 1.0, 0.0, -0.0, float("nan"), float("inf"), None, "null", "NULL", "1", "1.0"),
    *("true", "", "a, b", "a", "'", "\\'", "\\", "a\nb", "#12", f"#{FIRST_ID + 12}", "y_2024"),
    *("y_2025", "x_1", b"a", b"a\0", "1 AS c#0", "now", f"lambda x_1#{FIRST_ID}", "2020-01-01"),
    *(f"lambda x_2#{FIRST_ID}", "_pyspark_" + "0" * 32, "_pyspark_" + "1" * 32, "[1, 2]"),
    *(decimal.Decimal("1.0"), decimal.Decimal("1.00"), datetime.date(2020, 1, 1)),
    *(datetime.datetime(2020, 1, 1), datetime.timedelta(days=1), datetime.timedelta(days=2)),
    *([1, 2], [1], ["1", "2"], ["1, 2"], ["a", "b"], ["a, b"], ["a', 'b"], [None], ["null"]),
]
EXPRESSIONS = """
    1Y|1S|1L|1F|1D|1BD|1.00BD|CAST(NULL AS INT)|CAST(NULL AS STRING)|'a' COLLATE UTF8_LCASE
    'a' COLLATE UNICODE|array('p','q')|array('p, q')|map('a','b')|map('a, b','c')|map('a','b, c')
    struct('a','b')|named_struct('a','b')|named_struct('b','b')|INTERVAL 1 DAY|INTERVAL 24 HOURS
    INTERVAL 1 MONTH|INTERVAL 12 MONTHS|TIMESTAMP_NTZ'2020-01-01 00:00:00'|X'01'|X'0102'
    transform(array(1), y_2024 -> y_2024 + 1)|transform(array(1), y_2024 -> y_2024 + 2)
    1 IN (1,2)|1 IN ('1, 2')|'a' IN ('a','b')|'a' IN ('a,b')|'a' IN (NULL)|'a' IN ('null')
    (SELECT max(id) FROM range(3) WHERE id > 1)|(SELECT max(id) FROM range(3) WHERE id > 2)
    EXISTS (SELECT 'a, b')|EXISTS (SELECT 'a', 'b')|parse_json('1')|parse_json('2')
    from_json('{}','a int', map('dateFormat','yyyy'))|from_json('{}','a int', map('dateFormat','y'))
    sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)|concat('a#1', 'b')
    sum(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)|concat('a', '#1b')
    sum(id) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
"""
QUERIES = """
    SELECT * FROM range(9) LIMIT 3|SELECT * FROM range(9) LIMIT 4|SELECT * FROM range(1, 9)
    SELECT * FROM range(9) LIMIT 3 OFFSET 1|SELECT explode(array(1,2)) c
    SELECT explode(array(1,3)) c
    SELECT * FROM (SELECT * FROM range(9)) TABLESAMPLE (10 PERCENT) REPEATABLE (1)
    SELECT * FROM (SELECT * FROM range(9)) TABLESAMPLE (10 PERCENT) REPEATABLE (2)
    SELECT * FROM (SELECT * FROM range(9)) TABLESAMPLE (20 PERCENT) REPEATABLE (1)
    SELECT * FROM VALUES ('a','b') t(x,y)|SELECT * FROM VALUES ('a, b','') t(x,y)
    SELECT * FROM VALUES (1) t(x)|SELECT * FROM VALUES (1L) t(x)|SELECT * FROM VALUES (1) t(y)
    SELECT * FROM (SELECT 'null' k, 1 v) PIVOT (sum(v) FOR k IN ('null'))
    SELECT * FROM (SELECT 'null' k, 1 v) PIVOT (sum(v) FOR k IN (NULL))
    SELECT * FROM (SELECT 'null' k, 1 v) PIVOT (sum(v) FOR k IN ('a','b'))
    SELECT * FROM (SELECT 'null' k, 1 v) PIVOT (sum(v) FOR k IN ('a, b'))
    SELECT stack(2,1,2) c|SELECT stack(1,1,2)
    WITH c AS (SELECT 1 a) SELECT * FROM c JOIN c d USING (a)
    WITH c AS (SELECT 2 a) SELECT * FROM c JOIN c d USING (a)
    WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3) SELECT * FROM r
    WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<4) SELECT * FROM r
    SELECT id, count(*) c FROM range(3) GROUP BY ROLLUP(id)
    SELECT a.id FROM range(3) a JOIN range(3) b ON a.id = b.id
    SELECT b.id FROM range(3) a JOIN range(3) b ON a.id = b.id
    SELECT a.id FROM range(3) a JOIN range(3) b ON a.id = a.id
"""


@pytest.fixture
def digests(spark):
    """The digest of each query, which is analysed twice: the numbers of expressions differ."""
    session = isolated_session(spark)
    number_from_high(session)
    seen: dict[str, str] = {}

    def note(what, query):
        first, again = (analysed_plan(session, query(session)) for _ in range(2))
        assert first.digest == again.digest, what
        assert first.without_version == (), what
        assert first.digest not in seen, (what, seen[first.digest])
        seen[first.digest] = what

    return note


def listed(text):
    return [one.strip() for line in text.strip().splitlines() for one in line.split("|")]


def literal(value):
    return lambda session: session.range(1).select(F.lit(value).alias("c"))


def test_other_values_and_other_queries_have_other_digests(digests):
    for value in VALUES:
        digests(repr(value), literal(value))
    for text in listed(EXPRESSIONS):
        digests(text, lambda session, text=text: session.sql(f"SELECT {text} AS c FROM range(2)"))
    for text in listed(QUERIES):
        digests(text, lambda session, text=text: session.sql(text))


def test_random_texts_and_numbers_have_digests_of_their_own(digests, record_property):
    rng = random.Random(7)
    letters = string.ascii_lowercase[:3] + " ,'\\#_12\n\"()[]=`"
    values = {"".join(rng.choices(letters, k=rng.randint(0, 6))) for _ in range(150)}
    lists = {tuple(rng.choices(sorted(values), k=rng.randint(1, 3))) for _ in range(50)}
    for value in (*sorted(values), *range(20)):
        digests(repr(value), literal(value))
    for some in sorted(lists):
        digests(repr(some), literal(list(some)))
    record_property(
        "proved", f"literals: {len(values) + len(lists) + 20} random ones, no two of one digest"
    )


def test_two_moments_of_one_text_are_two(spark, digests, request):
    zone = "spark.sql.session.timeZone"
    usual = spark.conf.get(zone)
    request.addfinalizer(lambda: spark.conf.set(zone, usual))
    spark.conf.set(zone, "Europe/Berlin")
    utc = datetime.timezone.utc
    for hour in (0, 1):
        moment = datetime.datetime(2024, 10, 27, hour, 30, tzinfo=utc)
        digests(f"moment {hour}", literal(moment))
        digests(f"list {hour}", lambda s, m=moment: s.range(1).select(F.array(F.lit(m)).alias("c")))
        second = f"(timestamp_seconds({int(moment.timestamp())}))"
        digests(f"row {hour}", lambda s, t=second: s.sql(f"SELECT * FROM VALUES {t}, {t} AS t(c)"))


def test_names_that_spark_generates_do_not_show(digests):
    digests("a frame in SQL", lambda s: s.sql("SELECT * FROM {df}", df=s.range(2)))
    digests("observed", lambda s: s.range(3).observe("m", F.count(F.lit(1))).agg(F.max("id")))
    digests(
        "lambdas",
        lambda s: s.range(3).select(
            F.transform(F.array("id"), lambda x: F.transform(F.array(x), lambda y: y + x))
        ),
    )
    digests(
        "unpivoted", lambda s: s.range(2).selectExpr("id", "id AS b").unpivot("id", "b", "k", "v")
    )


def test_a_value_of_a_variable_of_the_session_counts(spark, digests):
    for number, value in enumerate(("'a, b'", "'null'", "NULL")):

        def query(session, value=value):
            session.sql(f"DECLARE OR REPLACE VARIABLE of_a_session STRING DEFAULT {value}")
            return session.sql("SELECT of_a_session AS c")

        digests(f"variable {number}", query)


def test_expressions_are_numbered_from_high_on_once(spark):
    number_from_high(spark)
    owner = "org.apache.spark.sql.catalyst.expressions.NamedExpression$"
    counter = Jvm(spark).private_field(owner, "curId")
    number_from_high(spark)
    assert FIRST_ID <= int(counter.get(None)) < FIRST_ID + 10**9
