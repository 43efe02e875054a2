# Every target creates the environment in .venv, pinned by constraints.txt, and creates it again
# when pyproject.toml or constraints.txt change. Needs Python >= 3.10; Spark needs Java 17 or 21.
#
#   make demo        fetch real data, run the example pipeline, serve it in the Dagster UI
#   make test        the tests as .ci/run runs them: all quick tests and all promises, and a share
#                    by commit of the other ones; `make test ARGS="-k merge -x"` passes arguments
#   make test-all    all tests with all variations
#   make soak        the tests that repeat something for hours
#   make test-pure   the tests that need no JVM, in one or two minutes
#   make docs        the documentation site, in build/site
#   make lint types  ruff and mypy
#   make clean       remove everything that the targets created, also .venv

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; \
	then echo $$python; break; fi; done)
ARGS ?=

# Containers often set this variable. Then each process of the tests and the demo compiles all its
# imports again, also PySpark and Dagster: more than two seconds of CPU time a process.
unexport PYTHONDONTWRITEBYTECODE

# Paths stay relative: make cannot handle a space in a path, and a checkout may have one.
python := .venv/bin/python
installed := .venv/.installed

.PHONY: demo test test-all soak docs test-pure lint types clean
.DELETE_ON_ERROR:

demo: $(installed)
	$(python) -m examples.aviation.demo $(ARGS)

test: $(installed)
	$(python) -m pytest $(ARGS)

test-all: $(installed)
	$(python) -m pytest --all $(ARGS)

soak: $(installed)
	$(python) -m pytest --all -m soak $(ARGS)

docs: $(installed)
	$(python) -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(python) -m mkdocs build --strict

test-pure: $(installed)
	$(python) -m pytest delta_pipelines_tests/pure $(ARGS)

lint: $(installed)
	$(python) -m ruff check .
	$(python) -m ruff format --check .

types: $(installed)
	$(python) -m mypy

$(installed): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python >= 3.10 was found; install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(python) -m pip install --quiet --constraint constraints.txt uv
	@# uv reads no pip configuration; where an index is configured for pip only, pip does it.
	$(python) -m uv pip install --quiet --python $(python) --constraint constraints.txt --editable '.[demo,dev]' \
	|| { $(python) -m pip install --quiet --constraint constraints.txt --upgrade pip \
	&& $(python) -m pip install --quiet --constraint constraints.txt --editable '.[demo,dev]'; }
	touch $(installed)

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	rm -rf examples/aviation/data examples/aviation/warehouse .tmp_dagster_home_*
	find examples/aviation/.dagster -mindepth 1 ! -name dagster.yaml -delete
	find delta_pipelines delta_pipelines_tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
