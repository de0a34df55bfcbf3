# Everything a newcomer needs: `make serve` and `make test`. Only Python >= 3.11 and make are assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --retries 10 --timeout 60 install --quiet
# What pip says about each package, as one line while it is fetched. A pipe has no status of its own in sh.
LOUD := --verbose --progress-bar off
SHOWN := sed -n 's/^Collecting \([^ =]*\)==\([^ ]*\).*/  \1 \2/p; s/^Installing collected packages.*/  Unpacking .../p'
ARGS ?=

.PHONY: serve test test-all format lock bench clean

serve: $(VENV)/.installed
	@exec $(BIN)/pilotis serve $(ARGS)

test: $(VENV)/.installed-dev
	@sh tests/run-all.sh $(ARGS)

test-all: $(VENV)/.installed-dev
	@TEST_ALL=1 sh tests/run-all.sh $(ARGS)

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	sh tools/javascript/format.sh

bench: $(VENV)/.installed-dev
	$(BIN)/python -m bench $(ARGS)

lock: $(VENV)/.installed-dev
	sh tools/lock.sh

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Pilotis needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 serve" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created requirements.lock pyproject.toml
	@echo "Installing Pilotis into $(VENV) …"
	@{ $(PIP) $(LOUD) --require-hashes -r requirements.lock || touch $@.failed; } | $(SHOWN)
	@if [ -e $@.failed ]; then rm $@.failed; exit 1; fi
	@$(PIP) --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@echo "Installing the development tools …"
	@{ $(PIP) $(LOUD) --require-hashes -r requirements-dev.lock || touch $@.failed; } | $(SHOWN)
	@if [ -e $@.failed ]; then rm $@.failed; exit 1; fi
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache tools/javascript/node_modules
