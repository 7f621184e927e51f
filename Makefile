# One menu of commands, the same for people and for CI. `make help` prints it.
#
# Variables: DATA and PORT (run, serve), ARGS (more arguments for the program behind test, bench, serve), WORKERS and SCRATCH (test),
# PART (test-slow), UPGRADE=--upgrade (lock), LEVELS (wheel), FULL=1 and PAPERS (reproduce), IMAGE and ENGINE (image), PYTHON (the interpreter that makes .venv).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
DATA ?= ./kinbin-data
PORT ?= 8080
ARGS ?=
WORKERS ?= 2
UPGRADE ?=
PART ?=
LEVELS ?=
FULL ?=
PAPERS ?= ./reproduced
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= kinbin:$(VERSION)
ENGINE ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Wheels only: building a source distribution would fetch build requirements that no lock pins.
INSTALL := $(PIP) install --quiet --only-binary :all: --require-hashes --no-deps
PROJECTS := pyproject.toml clients/python/pyproject.toml
# Whatever the shell says: hundreds of processes of the tests load the same sources.
KEEP_BYTECODE := PYTHONDONTWRITEBYTECODE=
# So that no test waits for the compiler; a second or two when that is done. It shows how far it is.
WARM_UP := @$(KEEP_BYTECODE) $(BIN)/python -m kinbin.warmup
# Sources stand on the path, too: what pip writes for two source roots is asked last, after a folder named kinbin where Python was started.
define INSTALL_PROJECTS
$(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable . --editable clients/python
printf '%s\n' "$(CURDIR)/index" "$(CURDIR)/service" "$(CURDIR)/cluster" "$(CURDIR)/clients/python" \
	> "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/kinbin-sources.pth"
endef

# The TypeScript client is built, checked and tested where there is Node. Its packages come from its lock, by hash, from wherever npm is set
# up to ask; where they cannot be had its tests are skipped, and say so.
TS := clients/typescript
NPM := npm --prefix $(TS) --silent
MODULES := $(TS)/node_modules/.package-lock.json
TYPESCRIPT := $(if $(and $(shell command -v node),$(shell command -v npm)),$(TS)/build/.stamp)

.PHONY: help run serve check lint types layers docs-check docs-site test test-slow test-all run-tests test-again torture torture-cluster fuzz-api bench reproduce typescript format docs kernels lock wheel image clean

help: ## print this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ------------------------------------------------------------------------------------ environments

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Kinbin needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# Each stamp is newer than the lock that was installed. The larger sets hold the smaller ones.
$(VENV)/.demo: requirements-demo.lock $(PROJECTS) | $(BIN)/python
	@echo 'Installing into $(VENV) what requirements-demo.lock holds (half a minute)'
	$(INSTALL) -r requirements-demo.lock
	$(INSTALL_PROJECTS)
	$(PIP) check
	touch $@

$(VENV)/.dev: requirements-dev.lock $(PROJECTS) | $(BIN)/python
	@echo 'Installing into $(VENV) what requirements-dev.lock holds (half a minute)'
	$(INSTALL) -r requirements-dev.lock
	$(INSTALL_PROJECTS)
	$(PIP) check
	touch $@ $(VENV)/.demo

# annoy comes as a source distribution only: it is compiled (which takes a C++ compiler) by the setuptools that the locks pin.
$(VENV)/.bench: requirements-bench.lock $(VENV)/.dev
	$(INSTALL) --no-binary annoy --no-build-isolation -r requirements-bench.lock
	touch $@

$(MODULES): $(TS)/package-lock.json
	$(NPM) ci --ignore-scripts && touch $@ || echo 'npm could not install $<: the TypeScript client is not checked' >&2

$(TS)/build/.stamp: $(MODULES) service/openapi.json $(wildcard $(TS)/src/*.ts $(TS)/test/*.ts $(TS)/scripts/* $(TS)/*.json $(TS)/test/*.json)
	@if [[ -e $(MODULES) ]]; then $(NPM) run current && $(NPM) run lint && $(NPM) run build && $(NPM) run build:test && touch $@; fi

# ------------------------------------------------------------------------------------- use it

run: $(VENV)/.demo ## start the demo: a server on 127.0.0.1 with real data, a query and its answer
	$(BIN)/python -m kinbin_service.demo --data $(DATA) --port $(PORT) $(ARGS)

serve: $(VENV)/.demo ## start the server on 127.0.0.1 (DATA=./kinbin-data PORT=8080)
	$(BIN)/kinbin serve --data $(DATA) --host 127.0.0.1 --port $(PORT) $(ARGS)

# ------------------------------------------------------------------------------------- work on it

check: lint types layers docs-check docs-site $(TYPESCRIPT) ## lint, format, types, layers, documents, their site; with Node the TypeScript client

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo

docs-check: $(VENV)/.dev
	$(BIN)/python docs/check_docs.py

# Without a network: what MkDocs warns of is an error, and what it built is looked at again, as browsers would.
docs-site: $(VENV)/.dev ## build the documentation site into build/site, and check it (python -m http.server -d build/site shows it)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=docs $(BIN)/mkdocs build --strict
	$(BIN)/python docs/check_site.py build/site

# A file's tests stay in one process, so that what they share is made once. Each process is a core's: threads of its BLAS
# would wait for each other, at twice the time. What tests write lies in memory, where there is room (tests/support/scratch.py).
test: AMONG = -m "not slow"
test: run-tests ## the test suite, some six minutes on two cores (ARGS="-k words" for a part of it, WORKERS=0 for one process)

test-slow: AMONG = -m slow $(if $(PART),--part $(PART))
test-slow: run-tests ## what takes long: campaigns in small, kills, clusters, browsers, statistics (PART=2/6: a sixth of it)

test-all: run-tests ## both

run-tests: $(VENV)/.dev $(TYPESCRIPT)
	$(WARM_UP)
	TMPDIR="$(or $(SCRATCH),$$($(BIN)/python tests/support/scratch.py))" $(KEEP_BYTECODE) OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 25 $(AMONG) $(ARGS)

test-again: $(VENV)/.dev ## what failed in the last run of the suite, alone: at most three tests
	$(BIN)/python tests/support/failed.py 3
	TMPDIR="$(or $(SCRATCH),$$($(BIN)/python tests/support/scratch.py))" $(KEEP_BYTECODE) OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(ARGS)

torture: $(VENV)/.dev ## damage files, cut the power, kill and let calls fail, for hours (ARGS="damage --flips 20000 --pages 2000")
	$(WARM_UP)
	PYTHONPATH=tests/support $(BIN)/python -m torture $(or $(ARGS),all --flips 20000 --pages 2000 --count 20000)

torture-cluster: $(VENV)/.dev ## kill, stop, cut off, fill up and damage the parts of a cluster under load, for hours (ARGS="--count 100")
	$(WARM_UP)
	PYTHONPATH=tests/support $(BIN)/python -m faults $(or $(ARGS),--count 300 --moves 30 --reshards 30 --power 1000 --controls)

# schemathesis stands in the lock of benchmarks.
fuzz-api: $(VENV)/.bench ## ask a running service 20,000 requests that are harmed or made of its document (ARGS="--count 200000 --seed 1")
	$(WARM_UP)
	PYTHONPATH=tests/support $(BIN)/python -m fuzzing $(ARGS)

bench: $(VENV)/.bench ## measure against exact scans and other libraries
	$(BIN)/python -m benchmarks $(ARGS)

reproduce: $(VENV)/.bench ## measure the tables of the papers again; what was ended goes on (FULL=1 for all of it)
	$(BIN)/python benchmarks/reproduce.py $(if $(FULL),--full) --folder $(PAPERS) $(ARGS)
	$(if $(filter --only --missing,$(ARGS)),,$(BIN)/python benchmarks/d2ke.py --folder $(PAPERS) $(filter --document,$(ARGS)))

typescript: $(MODULES) ## type the TypeScript client anew from service/openapi.json, compile it, and pack it into dist/ (needs Node)
	$(NPM) run generate
	$(NPM) run build:all
	mkdir -p dist && cd $(TS) && npm pack --silent --ignore-scripts --pack-destination ../../dist
	touch $(TS)/build/.stamp

format: $(VENV)/.dev ## repair formatting and import order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	if [[ -e $(MODULES) ]]; then $(NPM) run format; fi

docs: $(VENV)/.dev $(if $(TYPESCRIPT),$(MODULES)) ## write generated documents anew, then check all of them
	$(BIN)/python docs/check_docs.py --write
	if [[ -e $(MODULES) ]]; then $(NPM) run generate; fi

# Hashes only, and no address of an index: every machine uses the index of its own configuration.
COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate $(UPGRADE)
SERVER := --extra service --extra cluster --extra images --extra text --group server

# In an empty folder, so that every kernel is compiled and its time is measured.
kernels: $(VENV)/.dev ## write anew which kernels are compiled ahead of need (after changing what one is called with)
	folder=$$(mktemp -d); NUMBA_CACHE_DIR=$$folder $(BIN)/python -m kinbin.warmup --write; rm -rf $$folder

lock: $(VENV)/.dev ## write the hash-pinned locks anew (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(SERVER) -o requirements.lock
	$(COMPILE) $(SERVER) --group demo -c requirements.lock -o requirements-demo.lock
	$(COMPILE) $(SERVER) --extra features --extra parquet --extra traces --group demo --group dev --group docs -c requirements-demo.lock -o requirements-dev.lock
	$(COMPILE) $(SERVER) --extra features --extra parquet --extra traces --group demo --group bench -c requirements-dev.lock -o requirements-bench.lock

wheel: $(VENV)/.dev ## build dist/*.whl with machine code (LEVELS="baseline x86-64-v3 x86-64-v4", or native for this processor)
	$(BIN)/python deploy/build_wheel.py dist $(LEVELS)

image: ## build the container image with docker, podman or buildah (IMAGE=, ENGINE=, ARGS=)
	ENGINE="$(ENGINE)" deploy/build-image $(IMAGE) $(ARGS)

clean: ## remove the environment, caches and build products (never data)
	rm -rf $(addprefix $(TS)/,node_modules build dist LICENSE)
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find index service cluster clients tests benchmarks docs \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
