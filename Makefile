# Few targets; each sets up what it needs in .venv.   make demo | caption | pronounce | test | quick | docs | release | clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := data/help-en-fr
RUN := runs/help-en-fr
CAPTIONER := runs/digits
SCENES := $(CAPTIONER)/scenes
SPEAKER := runs/sounds
SITE := build/docs
NOTEBOOKS := $(wildcard docs/notebooks/4-*.py docs/notebooks/3-*.py docs/notebooks/[1256]-*.py docs/gallery.py)
KERNELS := $(wildcard src/regard/kernels/source/*.cpp src/regard/kernels/source/*/*)
KITS := $(wildcard kits/*)
BIOME := $(VENV)/node_modules/.bin/biome
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet

TESTS := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE # else every worker compiles all tests, and collecting them takes twice the time

.PHONY: demo caption pronounce test quick docs release clean

# Train a translator on real sentences (under three minutes), translate held-out sentences, and show the attention;
# step.html has a step of its decoder in numbers.
# An interrupted training is resumed, a finished one starts again.
demo: $(VENV)/cli
	$(BIN)/regard train $(DATA)/train.tsv.gz --valid $(DATA)/valid.tsv.gz --test $(DATA)/test.tsv.gz --out $(RUN) \
	    --minutes 2.6 --max-tokens 15 --test-max-tokens 12 $(if $(wildcard $(RUN)/checkpoint.safetensors),,--fresh)
	$(BIN)/regard show $(RUN) --text "Open the selected file" --token 1 --out $(RUN)/step.html --force

# Draw scenes of handwritten digits, train a captioner (three minutes), describe scenes of held-out digits, and score the
# captions and the attention; held_out has pairs of digits that never occur together in training. At the end, how many scenes
# and how many pictures without digits it warns of.
# COMPARE=1 also trains the same model without attention, for as long again, and scores its captions.
caption: $(VENV)/cli
	test -f $(SCENES)/boxes.jsonl || $(BIN)/python data/digits/scenes.py $(SCENES)
	$(BIN)/regard train $(SCENES)/train.tsv --valid $(SCENES)/valid.tsv --test $(SCENES)/test.tsv --out $(CAPTIONER) \
	    --source images --size 40 40 --channels 1 --network embedding=64 encoder=64 decoder=128 attention=64 \
	    --batch-tokens 3200 --dropout 0.1 --label-smoothing 0 --minutes 3 \
	    $(if $(COMPARE),--compare) $(if $(wildcard $(CAPTIONER)/checkpoint.safetensors),,--fresh)
	for part in test held_out; do \
	    $(BIN)/regard caption $(CAPTIONER) $(SCENES)/$$part/*.png --json $(CAPTIONER)/$$part.jsonl >$(CAPTIONER)/$$part.tsv && \
	    $(BIN)/python data/digits/score.py $(SCENES)/$$part.tsv $(CAPTIONER)/$$part.tsv --cells $(CAPTIONER)/$$part.jsonl || exit; \
	done
	$(BIN)/python data/digits/foreign.py $(SCENES)/foreign
	$(BIN)/regard caption $(CAPTIONER) $(SCENES)/foreign/*/*.png --json $(CAPTIONER)/foreign.jsonl >$(CAPTIONER)/foreign.tsv
	$(BIN)/python data/digits/foreign.py --count $(patsubst %,$(CAPTIONER)/%.jsonl,test held_out foreign)
	$(if $(COMPARE),for part in test held_out; do \
	    out=$(CAPTIONER)/$$part-without-attention.tsv; \
	    $(BIN)/regard caption $(CAPTIONER)/model-without-attention.safetensors $(SCENES)/$$part/*.png >$$out && \
	    echo "without attention:" && $(BIN)/python data/digits/score.py $(SCENES)/$$part.tsv $$out || exit; \
	done)

# Train on a tenth of CMUdict (about four minutes on two cores), print the card of the model, pronounce words that it has never
# seen, and export it for programs without regard. An interrupted training is resumed, and a finished one is not repeated.
pronounce: $(VENV)/lexicon $(VENV)/onnx
	$(BIN)/regard train data/cmudict/words.dict --task pronunciation \
	    --licence "BSD-2-Clause (Carnegie Mellon University)" --out $(SPEAKER)
	$(BIN)/regard pronounce --card $(SPEAKER)
	printf 'attention\nregardless\nphotosynthesis\n' | $(BIN)/regard pronounce $(SPEAKER) --lexicon data/cmudict/words.dict
	$(BIN)/regard export $(SPEAKER) --onnx $(SPEAKER)/app --force
	$(BIN)/python $(SPEAKER)/app/decode.py regardless

# All checks before a change is merged.
test: export OPENBLAS_NUM_THREADS ?= 1 # small products: more BLAS threads would only wait for each other
test: $(VENV)/dev $(VENV)/biome
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(KERNELS)
	@if [ -x $(BIOME) ]; then $(BIOME) ci --error-on-warnings; else cat $(VENV)/biome; fi
	@mkdir -p build; $(BIN)/mypy >build/mypy.log & mypy=$$!; \
	    $(TESTS); tests=$$?; wait $$mypy; types=$$?; cat build/mypy.log; exit $$((tests + types))

# The tests of every folder without those that take more than about 0.3 seconds each.
quick: export OPENBLAS_NUM_THREADS ?= 1
quick: $(VENV)/dev
	$(TESTS) -q -m "not slow" --hypothesis-profile quick

# The documentation as a site, within four minutes on two cores; a warning is an error, and so is a link that leads nowhere.
# Notebooks are executed first, side by side, the longest at the beginning. Those that have not changed are not run again.
docs: export OPENBLAS_NUM_THREADS ?= 1
docs: export JUPYTERCACHE = $(SITE)/.jupyter_cache
docs: $(VENV)/docs
	rm -rf docs/reference/generated # pages of names that are gone
	mkdir -p $(SITE) && yes | $(BIN)/jcache notebook clear >$(SITE)/notebooks.log # what Sphinx has listed, as another format
	$(BIN)/jcache notebook add --reader jupytext $(NOTEBOOKS) >>$(SITE)/notebooks.log
	$(BIN)/jcache project execute --executor local-parallel --timeout 900
	$(BIN)/sphinx-build -W --keep-going -j auto -b html docs $(SITE)/html
	$(BIN)/python docs/check.py $(SITE)/html
	@echo "open $(SITE)/html/index.html; the notebooks are in $(SITE)/html/notebooks"

# Everything that is released, built and checked, in dist; nothing is uploaded.
release: $(VENV)/dev
	.ci/release

clean:
	rm -rf $(VENV) build docs/reference/generated dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/regard/kernels/*.so src/regard/kernels/*.dylib src/regard/kernels/*.dll
	find native -mindepth 1 -maxdepth 1 ! -name CMakeLists.txt -exec rm -rf {} +
	find src tests kits -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit("regard needs Python 3.11 or later: make PYTHON=python3.11 ..." \
	    if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(PYTHON) -m virtualenv $(VENV); } || \
	    { rm -rf $(VENV); echo "install python3-venv (Debian) or virtualenv first" >&2; exit 1; }

# The build tools are in this environment, not in a temporary one of pip, so that a second build compiles changed sources
# only.
$(VENV)/build: $(VENV)/pyvenv.cfg
	$(PIP) scikit-build-core cmake ninja
	@touch $@

# What formats and checks JavaScript and CSS, where npm can have it.
$(VENV)/biome: $(VENV)/pyvenv.cfg
	@npm install --silent --no-save --no-package-lock --prefix $(VENV) @biomejs/biome@2.6.8 && : >$@ || \
	    echo "JavaScript and CSS are not checked: npm can't install biome" >$@

# An editable install, so that changes in Python take effect at once; repeated when its inputs change.
$(VENV)/cli $(VENV)/onnx $(VENV)/dev $(VENV)/docs: $(VENV)/build pyproject.toml $(KITS:=/pyproject.toml) native/CMakeLists.txt $(KERNELS)
	$(PIP) --no-build-isolation --editable '.[$(@F)]' $(if $(filter-out cli onnx,$(@F)),$(addprefix --editable ,$(KITS)))
	@touch $@

$(VENV)/lexicon: $(VENV)/cli kits/lexicon/pyproject.toml
	$(PIP) --no-build-isolation --editable kits/lexicon
	@touch $@
