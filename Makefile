# Every target works on a fresh Debian with python3 (>= 3.11), python3-venv, make and, for the embedded model, libgomp1.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt
EXTRAS := demo litellm langchain llamaindex haystack agents sentences eval service otel mcp
COMMA := ,
SPACE := $() $()

.PHONY: help demo test check lint types imports wheel format constraints clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

.venv/bin/python:
	@echo "making .venv"
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet 'pip==26.3'

.venv/demo.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing what the demo needs"
	$(INSTALL) --editable '.[demo]'
	@touch $@

.venv/dev.stamp: .venv/demo.stamp
	@echo "installing what the tests need"
	$(INSTALL) --editable '.[$(subst $(SPACE),$(COMMA),$(EXTRAS))]' --group dev
	@touch $@

demo: .venv/demo.stamp ## prune a real list with the embedded model; another question by Q="…"
	@$(BIN)/pruner demo $(if $(Q),--query "$$Q")

test: .venv/dev.stamp ## run the tests; those that need the model or a browser skip where it is absent
	@$(BIN)/python -m pytest

check: lint types imports ## everything that reads the code without running it

lint: .venv/dev.stamp ## ruff: lint and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/dev.stamp ## mypy --strict
	@$(BIN)/mypy

imports: .venv/dev.stamp ## import-linter: the layers hold
	@$(BIN)/lint-imports

format: .venv/dev.stamp ## rewrite the code as ruff formats it
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

wheel: .venv/dev.stamp ## build the wheel and the sdist into dist/
	@$(BIN)/python -m build --quiet

constraints: .venv/dev.stamp ## resolve constraints.txt anew
	@$(PIP) install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml $(addprefix --extra ,$(EXTRAS)) --group dev --universal --python-version 3.11 \
	    --no-annotate --no-header --quiet --upgrade --output-file constraints.txt

clean: ## remove what the targets made
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
export Q
