"""Build, check and stop the Spark session."""

from delta_pipelines.session.config import spark_config
from delta_pipelines.session.relocation import relocate_warehouse
from delta_pipelines.session.session import check_session, get_session, stop_session

__all__ = ["check_session", "get_session", "relocate_warehouse", "spark_config", "stop_session"]
