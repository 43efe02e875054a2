"""The options of a session's JVM are ones that this Java knows, else no session would start."""

import os
import re
import subprocess

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
