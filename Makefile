# Each target sets up all it needs in .venv; a second run is quick.
PYTHON ?= python3
BIN := .venv/bin
SPREAD := -n 2 --dist loadfile --no-loadscope-reorder # what tests of a file share is made once
CHECKED := src tests studies benchmarks examples docs/conf.py docs/make_pages.py .ci docs/typeset.py
NEEDED := --constraint constraints.txt --editable '.[test]' --editable ./studies
export OMP_NUM_THREADS ?= 1
export PYTHONDONTWRITEBYTECODE := # what a process has compiled the others need not

.PHONY: demo test test-all style fuzz study docs site release format clean

demo: .venv/installed
	$(BIN)/labelset compare digits --data train=1500 --data valid=500 --data test=1000 \
		--epochs 6 --seeds 2 --force --out demo

# before each commit: style, types and the tests of the fast tier
test: style
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest $(SPREAD) -m "not slow"; tests=$$?; \
		wait $$types && exit $$tests

# everything: the same, then the tests marked slow
test-all: test
	$(BIN)/python -m pytest $(SPREAD) -m slow

style: .venv/installed
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/python docs/make_pages.py --missing

# broken files and odd arguments through the command line; SEED=... for other cases
fuzz: .venv/installed
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

study: .venv/installed
	$(BIN)/labelset-studies --out study-run --resume $(STUDY)

docs: .venv/installed
	$(BIN)/python docs/make_pages.py

site: .venv/installed
	$(BIN)/python -m sphinx -W --keep-going -q docs site

# sdist and wheel in dist/, checked, and the fast tests by the wheel where there is no compiler
release: .venv/installed
	$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
		--editable '.[release]' || $(BIN)/python -m pip install --quiet '.[release]'
	$(BIN)/python .ci/release.py $(if $(TESTS),--tests $(TESTS))

format: .venv/installed
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

.venv/installed: pyproject.toml studies/pyproject.toml constraints.txt
	@echo "Installing into .venv (once; a minute or two) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || echo "no uv: pip it is"
	UV_FIND_LINKS="$${UV_FIND_LINKS-$$($(BIN)/pip config get global.find-links 2>/dev/null)}" \
		$(BIN)/python -m uv pip install --quiet --python $(BIN)/python $(NEEDED) || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check $(NEEDED)
	@touch $@

clean:
	rm -rf .venv build dist site docs/api src/*.egg-info studies/src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
