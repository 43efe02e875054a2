"""The options for Java's compilers are ones that this Java knows, else no session would start."""

import os
import re
import subprocess

from delta_pipelines.compilers import compiler_options
from delta_pipelines.java import java_executable


def test_java_takes_each_compiler_option_and_its_value() -> None:
    java = java_executable(os.environ)
    assert java
    told = compiler_options(1)
    command = [java, *told, "-XX:+PrintFlagsFinal", "-version"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    flags = dict(re.findall(r"(\w+) += (\d+) .*\{command line\}", printed))
    assert flags == dict(option.removeprefix("-XX:").split("=") for option in told)
