# Few targets; each sets up what it needs in .venv.   make demo | caption | test | quick | docs | clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := data/help-en-fr
RUN := runs/help-en-fr
CAPTIONER := runs/digits
SCENES := $(CAPTIONER)/scenes
SITE := build/docs
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet

TESTS := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE # every worker would compile all tests again: twice the time to collect them

.PHONY: demo caption test quick docs clean

# Train a translator on real sentences (under three minutes), translate sentences it has never seen,
# show where it looked. One that was interrupted goes on, one that is done begins anew.
demo: $(VENV)/cli
	$(BIN)/regard train $(DATA)/train.tsv.gz --valid $(DATA)/valid.tsv.gz --test $(DATA)/test.tsv.gz --out $(RUN) \
	    --minutes 2.6 --max-tokens 15 --test-max-tokens 12 $(if $(wildcard $(RUN)/checkpoint.safetensors),,--fresh)

# Draw scenes of handwritten digits, train a captioner of them (three minutes), describe scenes of digits that it has
# never seen, and score the captions and where it looked; in held_out are pairs of digits that it has never seen together.
caption: $(VENV)/cli
	test -f $(SCENES)/boxes.jsonl || $(BIN)/python data/digits/scenes.py $(SCENES)
	$(BIN)/regard train $(SCENES)/train.tsv --valid $(SCENES)/valid.tsv --test $(SCENES)/test.tsv --out $(CAPTIONER) \
	    --source images --size 40 40 --channels 1 --network embedding=64 encoder=64 decoder=128 attention=64 \
	    --recipe tokens=3200 dropout=0.1 smoothing=0 --minutes 3 \
	    $(if $(wildcard $(CAPTIONER)/checkpoint.safetensors),,--fresh)
	for part in test held_out; do \
	    $(BIN)/regard caption $(CAPTIONER) $(SCENES)/$$part/*.png --json $(CAPTIONER)/$$part.jsonl >$(CAPTIONER)/$$part.tsv && \
	    $(BIN)/python data/digits/score.py $(SCENES)/$$part.tsv $(CAPTIONER)/$$part.tsv --cells $(CAPTIONER)/$$part.jsonl || exit; \
	done

# Everything that has to hold before a change lands.
test: export OPENBLAS_NUM_THREADS ?= 1 # small products: more BLAS threads would only wait for each other
test: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(TESTS)

# The tests of every folder without those that take more than about 0.3 seconds each.
quick: export OPENBLAS_NUM_THREADS ?= 1
quick: $(VENV)/dev
	$(TESTS) -q -m "not slow" --hypothesis-profile quick

# The documentation as a site, notebooks executed; a warning is an error. Notebooks that have not changed are not run again.
docs: export OPENBLAS_NUM_THREADS ?= 1
docs: $(VENV)/docs
	rm -rf docs/reference/generated # pages of names that are gone
	$(BIN)/sphinx-build -W --keep-going -q -j auto -b html docs $(SITE)/html
	@echo "open $(SITE)/html/index.html; the notebooks are in $(SITE)/html/notebooks"

clean:
	rm -rf $(VENV) build docs/reference/generated dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/regard/kernels/*.so src/regard/kernels/*.dylib src/regard/kernels/*.dll
	find native -mindepth 1 -maxdepth 1 ! -name CMakeLists.txt -exec rm -rf {} +
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit("regard needs Python 3.11 or later: make PYTHON=python3.11 ..." \
	    if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(PYTHON) -m virtualenv $(VENV); } || \
	    { rm -rf $(VENV); echo "install python3-venv (Debian) or virtualenv first" >&2; exit 1; }

# What builds the native kernel is in the environment, not in one that pip throws away, so that objects are kept and a
# second build compiles only what has changed.
$(VENV)/build: $(VENV)/pyvenv.cfg
	$(PIP) scikit-build-core cmake ninja
	@touch $@

# Installed in place, so that a change in Python is seen at once; done again when what decides about the rest changes.
$(VENV)/cli $(VENV)/dev $(VENV)/docs: $(VENV)/build pyproject.toml native/CMakeLists.txt $(wildcard src/regard/kernels/source/* src/regard/kernels/source/*/*)
	$(PIP) --no-build-isolation --editable '.[$(@F)]'
	@touch $@
