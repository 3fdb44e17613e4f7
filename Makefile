# Antiphon: every target installs what it needs into VENV first.
#
#   make serve [PORT=8000]   the gateway with the embedded voice, and its page
#   make test                all tests that need no GPU and no torch
#   make check               lint, format, types, import contracts
#   make bench               the benchmarks of benchmarks/ (not part of any test)
#
# Heavier tiers, each with an environment of its own: test-models (torch), test-clients (vendors' clients),
# meters and meters-short (a recogniser). `environments` installs all of them, and runs nothing.

PYTHON ?= python3
VENV ?= .venv
MODELS_VENV ?= .venv-models
CLIENTS_VENV ?= .venv-clients
METERS_VENV ?= .venv-meters
PORT ?= 8000
PYTEST_FLAGS ?=

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A cached environment is used by many clones: its stamp names the clone whose code it runs.
fingerprint = $(shell (cat $(1) pyproject.toml; echo $(CURDIR)) | cksum | tr -d ' ')
SERVE_STAMP = $(VENV)/.antiphon-base-$(call fingerprint,requirements/base.txt)
TEST_STAMP = $(VENV)/.antiphon-dev-$(call fingerprint,requirements/dev.txt)
MODELS_STAMP = $(MODELS_VENV)/.antiphon-$(call fingerprint,/dev/null)
CLIENTS_STAMP = $(CLIENTS_VENV)/.antiphon-$(call fingerprint,requirements/clients.txt)
METERS_STAMP = $(METERS_VENV)/.antiphon-$(call fingerprint,/dev/null)
WEB_STAMP = tests/web/node_modules/.package-lock.json

.PHONY: serve test check format bench lock clean wheel environments test-models test-clients meters meters-short

serve: $(SERVE_STAMP)
	$(BIN)/antiphon serve --port $(PORT)

environments: $(TEST_STAMP) $(WEB_STAMP) $(CLIENTS_STAMP) $(MODELS_STAMP) $(METERS_STAMP)

test: $(TEST_STAMP) $(WEB_STAMP)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

check: $(TEST_STAMP) $(WEB_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v node >/dev/null; then cd tests/web && npm run --silent types; else echo "node is not installed: the page's types were not checked"; fi

test-models: $(MODELS_STAMP)
	$(MODELS_VENV)/bin/mypy --config-file .ci/mypy-models.ini -p kernels -p engine.runtime -p engine.models.higgs
	$(MODELS_VENV)/bin/python -m pytest $(PYTEST_FLAGS) tests/kernels tests/engine/runtime tests/engine/models/higgs

test-clients: $(CLIENTS_STAMP)
	$(CLIENTS_VENV)/bin/python -m pytest $(PYTEST_FLAGS) tests/conformance

# Needs an otherwise idle machine; the results land in benchmarks/results/.
bench: $(TEST_STAMP)
	$(BIN)/python benchmarks/first_audio.py
	$(BIN)/python benchmarks/capacity.py
	$(BIN)/python benchmarks/engine_step.py
	$(BIN)/python benchmarks/dialect_codec.py
	$(BIN)/python benchmarks/vendor_dialects.py
	$(BIN)/python benchmarks/text_front_end.py

# The voice by its meters: about an hour, with torch. `meters-short` has neither, for CI.
meters: $(METERS_STAMP)
	$(METERS_VENV)/bin/python -m pip install --quiet torch webrtcvad-wheels
	$(METERS_VENV)/bin/python -m pip install --quiet --no-deps distillmos xls-r-sqa resemblyzer
	$(METERS_VENV)/bin/python -m benchmarks.meters

meters-short: $(METERS_STAMP)
	$(METERS_VENV)/bin/python -m benchmarks.meters --short

format: $(TEST_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(TEST_STAMP)
	$(BIN)/python -m build --wheel

# The locks pin every package by version and hash; torch, which depends on the machine, is in none of them.
lock: $(TEST_STAMP)
	$(PIP) pip-tools
	cd requirements && for name in base dev; do \
	  extras=$$( [ $$name = dev ] && echo "--extra=dev --extra=test" ); \
	  ../$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header --no-emit-index-url \
	    --no-emit-find-links --no-emit-trusted-host $$extras --output-file $$name.txt ../pyproject.toml; done

clean:
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/web/node_modules

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Antiphon needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(SERVE_STAMP): $(BIN)/python
	$(PIP) --require-hashes -r requirements/base.txt
	$(PIP) --no-deps --editable .
	@touch $@

$(TEST_STAMP): $(BIN)/python
	$(PIP) --require-hashes -r requirements/dev.txt
	$(PIP) --no-deps --editable .
	@touch $@

$(METERS_STAMP):
	$(PYTHON) -m venv $(METERS_VENV)
	$(METERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[meters]'
	@touch $@

# torch comes from the `higgs` extra: the build that pip finds for this machine.
$(MODELS_STAMP):
	$(PYTHON) -m venv $(MODELS_VENV)
	$(MODELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[higgs,test]' mypy
	# The published Qwen ranks, for the golden prompt ids; nothing else of that package is used.
	$(MODELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dashscope==2.0.2
	@touch $@

$(CLIENTS_STAMP): requirements/clients.txt
	$(PYTHON) -m venv $(CLIENTS_VENV)
	$(CLIENTS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' -r requirements/clients.txt
	@touch $@

$(WEB_STAMP): tests/web/package-lock.json
	@if command -v npm >/dev/null; then cd tests/web && npm ci --silent --no-audit --no-fund; \
	else echo "npm is not installed: the page's tests will be skipped"; mkdir -p $(@D) && touch $@; fi
