PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test check bench soak install clean servers

run: $(VENV)/run.stamp
	$(BIN)/postmirror demo

test: install servers
	$(BIN)/pytest -n 2 --dist loadgroup -m "not soak"

check: install
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: install servers
	sh bench/install_peers.sh
	$(BIN)/python -m bench $(ARGS)

soak: install servers
	sh tests/servers/download.sh
	$(BIN)/python -m tests.conformance.install --all
	$(BIN)/pytest -n 2 --dist loadgroup -m soak --timeout 3600 -s

install: $(VENV)/dev.stamp

servers: install
	sh tests/servers/install.sh
	$(BIN)/python -m tests.conformance.install

clean:
	rm -rf $(VENV) .demo .servers .conformance .bench-simple-email-gw .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

$(VENV)/pip.stamp:
	$(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1" && touch $@

$(VENV)/run.stamp: $(VENV)/pip.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[demo]" && touch $@

$(VENV)/dev.stamp: $(VENV)/pip.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[demo]" --group dev
	touch $(VENV)/run.stamp $@
