"""Send the Python modules of a pipeline to the executors of a cluster.

A function of a pipeline runs on the executors, which have another disk. It travels with the names
of the modules that it uses, and an executor's Python imports them there.
"""

import inspect
import logging
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import temporary_folder
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.setting_names import SEND_CODE
from delta_pipelines.session.config import is_on_this_machine
from delta_pipelines.user_code.code_archive import code_archive, code_folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_guard = threading.Lock()


def send_code(spark: "SparkSession", graph: Graph) -> Path | None:
    """Send the code of a pipeline, and this package, to a cluster's executors as one zip.

    The code is the folder from which the pipeline's module was imported, and other modules outside
    of Python's libraries that this process has loaded.

    The executors' Python looks into it before its own libraries, so modules that are installed
    there too do no harm. A zip of equal content is sent once for each Spark application.

    Args:
        graph: The pipeline's datasets.

    Returns:
        The zip; None where the executors run on this machine, or where the setting
        `spark.delta_pipelines.sendCode` is `false`.

    Raises:
        SessionError: The files are too many, or too large.
    """
    context = spark.sparkContext
    if is_on_this_machine(context.master or "local") or _is_off(spark):
        return None
    with _guard:
        folders = code_folders(declaring_modules(graph), list(sys.modules.values()))
        archive = code_archive(folders)
        path = temporary_folder(spark) / f"pipeline_code_{archive.digest}.zip"
        if path.exists():
            return path
        path.write_bytes(archive.zipped())
        try:
            context.addPyFile(str(path))
        except BaseException:
            path.unlink()  # not sent
            raise
        # PySpark also adds it to the path of this process, which has the modules themselves. What
        # it imports later would come from the zip, and would count as other code.
        sys.path[:] = [entry for entry in sys.path if not entry.endswith(path.name)]
        log.debug("Sent %s (%d bytes) to the executors", path, path.stat().st_size)
        return path


def declaring_modules(graph: Graph) -> list[ModuleType]:
    """The modules with the functions and the SQL texts of a pipeline.

    Example:
        >>> declaring_modules(sales.graph())  # doctest: +SKIP
        [<module 'sales' from 'sales.py'>]
    """
    names, files = set(), set()
    for declaration in (dataset.declaration for dataset in (*graph.flows, *graph.assets)):
        function = declaration.query.function if declaration.query is not None else None
        names.add(getattr(inspect.unwrap(function), "__module__", None) if function else None)
        files.add(declaration.location.file if declaration.location is not None else None)
    return [
        module
        for name, module in sorted(sys.modules.items())
        if isinstance(module, ModuleType)
        and (name in names or vars(module).get("__file__") in files - {None})
    ]


def _is_off(spark: "SparkSession") -> bool:
    return str(spark.conf.get(SEND_CODE, "true")).lower() == "false"
