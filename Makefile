# Every target makes .venv when it is missing. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
GOLDEN ?= tests/data/golden
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install demo serve check lint types imports bandit audit baseline fuzz unit js test golden faults bench-ingest bench-scoring bench-alerts bench-dashboard clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Python 3.11 or newer is needed, {sys.version.split()[0]} found; try: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing collapsewatch with its server, worker and demo (torch is the large part) ..."
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing collapsewatch with everything its tests need (torch is the large part) ..."
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.demo

install: $(VENV)/.demo ## Create .venv with everything the demo and the service need

demo: $(VENV)/.demo ## Train two small agents on the CPU and watch one collapse
	$(BIN)/collapsewatch demo $(ARGS)

serve: $(VENV)/.demo ## Start the service in its embedded form
	$(BIN)/collapsewatch serve $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

bandit: $(VENV)/.dev ## Look for dangerous code; what is left out, and why, stands in pyproject.toml
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive client_sdk server worker frontend scripts

audit: $(VENV)/.dev ## Look for known vulnerabilities in what is installed, once a day
	$(BIN)/python scripts/audit.py

baseline: $(VENV)/.demo ## Scan a running server's headers, content and doors: make baseline URL=… ARGS='--name olga'
	$(BIN)/python scripts/baseline.py $(or $(URL),http://127.0.0.1:7788) $(ARGS)

fuzz: $(VENV)/.dev ## Generated requests against the API, ten times as many as in the tests: MANY=10
	scripts/system_packages.sh redis-server postgresql
	COLLAPSEWATCH_FUZZ=$(or $(MANY),10) COLLAPSEWATCH_TEST_SERVERS=required $(BIN)/pytest -q tests/server/test_fuzz.py tests/server/test_fuzz_doors.py

unit: $(VENV)/.dev
	$(BIN)/pytest -q -m 'not integration and not browser'

tests/frontend/node_modules/.installed: tests/frontend/package.json tests/frontend/package-lock.json
	npm ci --prefix tests/frontend --no-audit --no-fund --silent
	@touch $@

js: tests/frontend/node_modules/.installed ## The page's scripts: their types by JSDoc, and their unit tests
	tests/frontend/node_modules/.bin/tsc --project frontend/tsconfig.json
	node --test tests/frontend/*.test.js

check: lint types imports bandit audit unit js ## Style, types, import rules, dangerous code, unit tests: before every commit

test: $(VENV)/.dev ## Everything, with real Redis, PostgreSQL and Chromium
	scripts/system_packages.sh redis-server postgresql chromium nodejs npm curl
	$(MAKE) lint types imports bandit audit js
	$(BIN)/python -m tests.golden $(GOLDEN)
	COLLAPSEWATCH_TEST_SERVERS=required $(BIN)/pytest -q

golden: $(VENV)/.dev ## Compare the metrics with reference vectors: make golden GOLDEN=<folder>
	$(BIN)/python -m tests.golden $(GOLDEN)

faults: $(VENV)/.dev ## Kill every part while runs go on, 10 minutes or more, and count what is lost; SEED=1 QUICK=1
	scripts/system_packages.sh redis-server postgresql
	$(BIN)/python -m tests.faults --seed $(or $(SEED),1) $(if $(QUICK),--short,--minutes $(or $(MINUTES),10)) $(ARGS)

build/bench/.peers: benchmarks/peers.txt
	$(PYTHON) -m venv build/bench/venv
	build/bench/venv/bin/python -m pip install --quiet --requirement benchmarks/peers.txt
	@touch $@

bench-ingest: $(VENV)/.dev build/bench/.peers ## What logging costs, what survives a kill, how much is taken in; QUICK=1
	scripts/system_packages.sh postgresql
	$(BIN)/python -m benchmarks.ingest

bench-scoring: $(VENV)/.dev ## The scoring engine beside the reference scheme and the FLOP bound; fills docs/scoring.md; QUICK=1
	$(BIN)/python -m benchmarks.scoring $(ARGS)

bench-alerts: $(VENV)/.dev ## False alarms and delays of the alert rules beside plain detectors; fills docs/alerts.md; QUICK=1 ROLLOUTS=<folder>
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.alerts

bench-dashboard: $(VENV)/.dev build/bench/.peers ## How fast long runs, many runs and comparisons open, beside trackio's and MLflow's pages; QUICK=1
	scripts/system_packages.sh chromium
	$(BIN)/python -m benchmarks.dashboard

clean: ## Remove .venv and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
