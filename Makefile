# Everything a developer needs; `make check` is what CI runs.
# Each target sets up .venv by itself, from the hashed lock files.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTBED := .venv-testbed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SOURCES := gateway transports tests $(wildcard benchmarks examples)
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test testbed tck check format format-check lint types imports generate drift bench faults fuzz lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: $(VENV)/run ## the gateway with the demo agent; ARGS="--transport http=127.0.0.1:8080"
	$(BIN)/a2a-gateway serve --agent demo $(ARGS)

test: $(VENV)/dev $(TESTBED)/done ## all tests; ARGS="tests/unit -k config"
	$(BIN)/python -m pytest $(ARGS)

testbed: $(VENV)/dev $(TESTBED)/done ## a2a-testbed, strict, against the gateway
	$(BIN)/python -m pytest tests/kits $(ARGS)

tck: $(VENV)/dev ## the official kit; KIT=checkout PLUGIN=folder of its plugin (docs/conformance.md)
	$(BIN)/python -m tests.kits.run_tck --kit $(or $(KIT),$(error say where the kit is: KIT=...)) \
		--plugin $(or $(PLUGIN),$(error say where its plugin is: PLUGIN=...)) $(ARGS)

check: format-check lint types imports drift test ## what CI runs

format: $(VENV)/dev ## format and mend what can be mended
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

format-check: $(VENV)/dev
	$(BIN)/ruff format --check $(SOURCES)

lint: $(VENV)/dev
	$(BIN)/ruff check $(SOURCES)

types: $(VENV)/dev
	$(BIN)/mypy

imports: $(VENV)/dev
	$(BIN)/lint-imports

generate: $(VENV)/dev ## compile proto/ into gateway/pb
	$(BIN)/python proto/generate.py gateway/pb

drift: $(VENV)/dev
	$(BIN)/python proto/generate.py --check gateway/pb

bench: $(VENV)/dev ## ours against the SDK's server, side by side
	$(BIN)/python -m benchmarks $(ARGS)

faults: $(VENV)/dev ## kill, freeze and stop processes under load, the long form of it
	FAULTS=long $(BIN)/python -m pytest -s tests/faults $(ARGS)

fuzz: $(VENV)/dev ## the generated tests with examples that no run had before
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest tests/unit $(ARGS)

# The environment. A lock holds every wheel of every pinned version, so it serves each supported
# Python on x86_64 and aarch64; the stamps make it install once.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; say which by: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run: requirements/run.lock requirements/build.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) install --require-hashes --no-deps -r requirements/run.lock
	$(PIP) install --require-hashes --no-deps -r requirements/build.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev: $(VENV)/run requirements/dev.lock
	$(PIP) install --require-hashes --no-deps -r requirements/dev.lock
	@touch $@

# It declares 3.12 as its least Python; what the tests use of it runs on 3.11 too.
$(TESTBED)/done: requirements/testbed.lock
	$(PYTHON) -m venv $(TESTBED)
	$(TESTBED)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes \
		--no-deps --ignore-requires-python -r requirements/testbed.lock
	@touch $@

lock: ## pin anew what pyproject.toml asks for (needs uv); ARGS=--upgrade
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS) pyproject.toml -o requirements/run.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS) --group build -c requirements/run.lock -o requirements/build.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS) pyproject.toml --group build --group dev -c requirements/run.lock -c requirements/build.lock -o requirements/dev.lock
	for set in agent agent-build; do uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS) requirements/$$set.in -c requirements/dev.lock -o requirements/$$set.lock; done
	uv pip compile --universal --python-version 3.12 --generate-hashes --no-header --no-annotate $(ARGS) requirements/testbed.in -c requirements/dev.lock -o requirements/testbed.lock

clean: ## remove everything that the other targets made
	rm -rf $(VENV) $(TESTBED) tests/interop/js/node_modules examples/*/node_modules examples/*/*/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
