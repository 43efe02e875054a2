"""The options of a session's JVM are ones that this Java knows, else no session would start."""

import os
import re
import shlex
import subprocess

from delta_pipelines.session import spark_config
from delta_pipelines.session.java import java_executable
from delta_pipelines.session.jvm_options import LARGE_PAGES, memory_options


def test_java_takes_the_options_of_memory_without_a_word() -> None:
    java = java_executable(os.environ)
    assert java
    command = [java, *memory_options(), "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert re.search(r"\bMetaspaceSize += 268435456\b", done.stdout)
    large = re.search(r"\bUseTransparentHugePages += true\b", done.stdout)
    assert bool(large) == (LARGE_PAGES in memory_options())
    assert "warning" not in done.stderr.lower()


def test_the_first_compiler_alone_has_as_much_room_for_code_as_both(
    tmp_path, process_settings
) -> None:
    options = spark_config(tmp_path, extra=process_settings)["spark.driver.extraJavaOptions"]
    assert "-XX:TieredStopAtLevel=1" in options
    command = [java_executable(os.environ), *shlex.split(options)]
    command += ["-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert re.search(rf"\bReservedCodeCacheSize += {240 << 20}\b", done.stdout)
