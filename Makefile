# Two commands: `make demo` and `make test`. All set up what they need in .venv (or .venv-4.1 for SPARK=4.1).
PYTHON ?= python3
SPARK ?= 4.3
SPARK_NEWEST = 4.3
VENV = .venv$(if $(filter $(SPARK),$(SPARK_NEWEST)),,-$(SPARK))
PY = $(VENV)/bin/python
READY = $(VENV)/.ready

# What can be run while a line is being written: no Spark, no compiler, no waiting, no files of many examples.
SLOW = logdir/test_neighbours.py kernels/test_jit.py reading/test_live_log.py reading/test_data_loss.py test_support.py \
  test_tiered_encoder.py storage/tiered/test_tiered_storage.py decoding/test_hostile.py partition/test_missing.py
QUICK = tests/unit tests/cli --ignore=tests/cli/test_cli_report.py $(addprefix --ignore=tests/unit/,$(SLOW))

.PHONY: docs demo demo-s3 test test-spark test-cases test-stores test-tables test-release test-pipelines dist check check-oldest bench machine lint clean

demo: machine $(READY)
	@$(PY) examples/demo.py

# The same question of a bucket on a local S3 server, which this starts.
demo-s3: machine $(READY)
	@$(PY) examples/demo_s3.py

# All tests, with few random cases of each kind. Spark leaves a core idle at times, so there are three processes on two
# cores. PROCESSES=0 is one, as `python -m pytest` is.
PROCESSES ?= 3
test: machine $(READY)
	@$(PY) -m pytest -n $(PROCESSES)

# The heart of the tests with Spark, for a Spark that is not run whole each time: rows, SQL, pushdown, streams.
test-spark: machine $(READY)
	@$(PY) -m pytest -n $(PROCESSES) tests/unit/spark tests/spark/test_rows.py tests/spark/test_sql.py tests/spark/test_pushdown_queries.py tests/spark/test_stream_queries.py

# More random cases of the tests that try them, and the tests that take long: all properties, and what asks for the number
# of its cases. That is damaged logs, hurt copies, reads beside a simulated broker, kills of jobs, codecs, schemas.
CASES = $(shell (ls tests/property/test_*.py; grep -rl --include='test_*.py' '^from tests.support.cases import' tests) | sort -u)
test-cases: machine $(READY)
	@KAFKASEG_CASES=many $(PY) -m pytest -n $(PROCESSES) $(CASES)

# The tests of object stores with servers of others: s3proxy where mvn can fetch it, Azurite where npm can.
STORES = $(shell $(PY) -m tests.support.store_servers)
test-stores: machine $(READY)
	@KAFKASEG_STORES="$(STORES)" $(PY) -m pytest tests/storage tests/spark/test_object_store_queries.py

# The tests of table formats and Avro in Spark, whose jars mvn fetches. SPARK=4.1 has all formats, 4.2 Delta, 4.3 none.
test-tables: machine $(READY)
	@KAFKASEG_MAVEN=1 $(PY) -m pytest -rs tests/examples/test_etl_job.py tests/examples/test_etl_documents.py

# The sdist and the wheel that a release is made of, in dist/.
dist: $(READY)
	@rm -rf dist
	@$(PY) -m hatchling build

# Both of them, each installed by pip into a fresh environment: the command line, a read, and Spark's look-up.
test-release: machine $(READY)
	@KAFKASEG_RELEASE=1 $(PY) -m pytest -rs tests/unit/test_packaging.py

# The example of Declarative Pipelines by Spark's own command line, from Spark 4.1 on. pip fetches what Connect needs.
test-pipelines: machine $(READY)
	@KAFKASEG_PIPELINES=1 $(PY) -m pytest -rs tests/examples/test_pipeline.py

# For the loop while developing, in less than a minute: the linters, and the tests that need no Spark.
check: lint
	@$(PY) -m pytest -n $(PROCESSES) --hypothesis-profile=few $(QUICK)

# The quick tests with the oldest dependencies that pyproject.toml allows, in .venv-oldest.
check-oldest: machine
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c .ci/oldest.txt -e '.[spark,dev]'
	@.venv-oldest/bin/python -m pytest -n $(PROCESSES) --hypothesis-profile=few $(QUICK)

# Each goal of speed with its figure, in about twenty minutes; BENCH="--quick", "spark windows", "--kafka" ...
bench: machine $(READY)
	@$(PY) -m benchmarks $(BENCH)

# Says in one sentence what is missing: Python 3.11, Java 17, Spark 4.1.
machine:
	@$(PYTHON) .ci/check_machine.py $(SPARK)

# The documentation site, in build/site. A broken link is an error.
docs: machine $(READY)
	@$(PY) -m sphinx -q -W --keep-going -c docs/site -d build/doctrees . build/site
	@echo "build/site/index.html"

lint: $(READY)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

$(READY): pyproject.toml
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) with Spark $(SPARK) (some minutes, once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[spark,dev]' 'pyspark==$(SPARK).*'
	@touch $@

clean:
	rm -rf build dist .venv .venv-* .mypy_cache .ruff_cache .hypothesis spark-warehouse
