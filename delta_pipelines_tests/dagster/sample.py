"""A small pipeline with every kind of dataset; its tables have a handful of rows."""

from delta_pipelines.pipeline import Pipeline


def sales_pipeline(name="sales", schema="sales", landing="landing"):
    """orders_raw -> orders (upsert, no reset) -> totals -> big_totals (view), and a source."""
    sales = Pipeline(name, schema=schema)
    sales.source(f"{landing}.rates", comment="Exchange rates", owners=["team:finance"])

    @sales.materialized_view(comment="Orders as they came", owners=["team:sales"], group="raw")
    def orders_raw(spark):
        return spark.createDataFrame(
            [(1, "nl", 10.0, 1), (2, "de", 20.0, 1), (3, "nl", 5.0, 1)],
            "order_id INT, country STRING, amount DOUBLE, seq INT",
        )

    @sales.temporary_view
    def priced(orders_raw):
        return orders_raw.where("amount > 0")

    @sales.upsert(
        keys=["order_id"],
        sequence_by="seq",
        table_properties={"pipelines.reset.allowed": "false"},
        tags={"layer": "silver"},
    )
    def orders(priced):
        return priced

    sales.materialized_view(
        "totals",
        "SELECT country, sum(amount) AS amount FROM orders GROUP BY country",
        comment="Amount by country",
        partition_cols=["country"],
    )
    sales.view("big_totals", "SELECT * FROM totals WHERE amount > 15", comment="Big ones")

    @sales.materialized_view
    def converted(orders, rates):
        return orders.crossJoin(rates.limit(1))

    return sales
