# Everything a developer does, with no set-up step before it: the environments make themselves.

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

VENV := .venv
INTEROP_VENV := .venv-interop
EXECUTOR_VENV := .venv-executor
BIN := $(VENV)/bin
WORKERS ?= 2
# Two sessions of Hudi leave two cores idle a good part of the time.
HUDI_WORKERS ?= 3
CASES ?= 100000
DAMAGES ?= 10000
SEED ?= 1
SCHEDULES ?= 20000
# Of the shapes of table that Hudi judges: few, pairs (any two options meet), rotating (a third of
# the pairs, another one with every commit) or all.
JUDGES ?= $(or $(LAKEDEX_JUDGES),rotating)

# A stamp is older than its lock exactly when something has to be installed again.
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready
INTEROP_LOCKED := $(INTEROP_VENV)/.locked
INTEROP_READY := $(INTEROP_VENV)/.ready
EXECUTOR_READY := $(EXECUTOR_VENV)/.ready
INSTALL_SELF := pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .

##@ Use

.PHONY: demo
demo: java $(READY) ## Run the same queries with and without indexes
	@$(BIN)/lakedex demo

##@ Test

.PHONY: test
test: java $(READY) $(EXECUTOR_READY) ## Run the whole suite and the doctests
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not interop"

# Apart from `test`: watching every line nearly doubles the time of what is not waiting for Spark.
.PHONY: all
all: check ## Everything in full, for a night: all shapes, kill points, schedules and Spark 3.5
	@LAKEDEX_JUDGES=all LAKEDEX_KILLS=all LAKEDEX_SCHEDULES=$(SCHEDULES) $(MAKE) test
	@$(MAKE) interop JUDGES=all OLD_SPARK=tests/spark

.PHONY: coverage
coverage: java $(READY) $(EXECUTOR_READY) ## The same suite with the coverage floor
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not interop" --cov --cov-report=term:skip-covered

.PHONY: check
check: check-style check-types check-layers check-lock check-tree docs ## Check style, types, layers, locks, tree and docs

.PHONY: interop
interop: java $(INTEROP_READY) $(EXECUTOR_READY) ## Test against Hudi on Spark 3.5, and write on Spark 3.5
	@$(INTEROP_VENV)/bin/python scripts/fetch_jars.py peers
	@# One after the other: some tests kill processes in the middle of what these do.
	@$(MAKE) interop-hudi
	@$(MAKE) interop-spark

.PHONY: interop-hudi
interop-hudi:
	@LAKEDEX_JUDGES=$(JUDGES) $(INTEROP_VENV)/bin/python -m pytest -n $(HUDI_WORKERS) -m interop \
		tests/interop

# What differs between versions of Spark: plans, parsers, statements, sources and jobs. The rest of
# tests/spark asks the same of 3.5 as of 4.x: `make interop-spark OLD_SPARK=tests/spark` runs all.
OLD_SPARK ?= $(addprefix tests/spark/test_,$(addsuffix .py,attach_api catalyst_shapes \
	catalyst_surroundings data_source_writes frame_writes jvm_classes jvm_contract query_walk \
	row_source spark_engine spark_writes sql_explain sql_grammar sql_statements sql_tables streaming \
	to_df))
.PHONY: interop-spark
interop-spark:
	@$(INTEROP_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m spark $(OLD_SPARK) \
		-k "not history or record" --ignore=tests/spark/test_faulty_cluster.py

.PHONY: fuzz
fuzz: $(READY) ## Mutate bytes, damage tables for a long time: CASES=100000 a codec, DAMAGES=10000, SEED=1
	@LAKEDEX_FUZZ_CASES=$(CASES) LAKEDEX_FUZZ_DAMAGES=$(DAMAGES) LAKEDEX_FUZZ_SEED=$(SEED) \
		$(BIN)/python -m pytest -n $(WORKERS) -m fuzz -rP --hypothesis-profile=long tests

.PHONY: simulate
simulate: $(READY) ## Simulate writers for a long time: SCHEDULES=20000
	@LAKEDEX_SCHEDULES=$(SCHEDULES) $(BIN)/python -m pytest -n $(WORKERS) tests/simulation

.PHONY: bench
bench: $(READY) ## Measure ratios: with index and without, against peers
	@$(BIN)/python bench/run.py

##@ One check at a time

.PHONY: check-style
check-style: $(READY) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: check-types
check-types: $(READY) ## mypy, strict
	@$(BIN)/mypy

.PHONY: check-layers
check-layers: $(READY) ## import-linter: layers import downwards only
	@$(BIN)/lint-imports --no-logo

.PHONY: check-lock
check-lock: $(READY) ## The locks fit pyproject.toml, have hashes and name no host
	@$(BIN)/python scripts/check_lock.py

.PHONY: check-tree
check-tree: $(READY) ## No long file, no path of one machine
	@$(BIN)/python scripts/check_tree.py

.PHONY: java
java:
	@sh scripts/check_java.sh

##@ Write

.PHONY: format
format: $(READY) ## Format the code and apply ruff's fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: docs
docs: $(READY) ## Build the documentation into site/, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: hooks
hooks: $(READY) ## Install the git hooks: format on commit, types and tests on push
	@$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

##@ Environment

.PHONY: venv
venv: $(READY) ## Only make the environment

.PHONY: lock
lock: $(BIN)/uv ## Resolve requirements/*.lock again (UPGRADE=1 takes the newest versions)
	@scripts/lock.sh

.PHONY: clean
clean: ## Remove the environments and everything built
	@rm -rf $(VENV) $(INTEROP_VENV) $(EXECUTOR_VENV) .interop site dist build .coverage .coverage.* coverage.xml \
		.pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## "; print "usage: make <target>" } \
		/^##@/ { print "\n" substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(LOCKED): requirements/bootstrap.lock requirements/dev.lock scripts/venv.sh
	@scripts/venv.sh $(VENV) dev
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	@$(BIN)/python -m $(INSTALL_SELF)
	@touch $@

$(INTEROP_LOCKED): requirements/bootstrap.lock requirements/interop.lock scripts/venv.sh
	@scripts/venv.sh $(INTEROP_VENV) interop
	@touch $@

$(INTEROP_READY): $(INTEROP_LOCKED) pyproject.toml
	@$(INTEROP_VENV)/bin/python -m $(INSTALL_SELF)
	@touch $@

# What the Python of a Spark executor has, and nothing else: lakedex is shipped to it.
$(EXECUTOR_READY): requirements/bootstrap.lock requirements/executor.lock scripts/venv.sh
	@scripts/venv.sh $(EXECUTOR_VENV) executor
	@touch $@

# `make lock` must work also when the present locks do not fit.
$(BIN)/uv:
	@scripts/venv.sh $(VENV) bootstrap
