# Each target sets up all it needs in .venv; a second run is quick.
PYTHON ?= python3
BIN := .venv/bin
WHEEL := build/environment
SPREAD := -n 2 --dist loadfile --no-loadscope-reorder # what tests of a file share is made once
NEEDED := --constraint constraints.txt --editable '.[test]'
export OMP_NUM_THREADS ?= 1
export PYTHONDONTWRITEBYTECODE := # what a process has compiled the others need not

.PHONY: demo test study docs site wheel format clean

demo: .venv/installed
	$(BIN)/labelset compare digits --data train=1500 --data valid=500 --data test=1000 \
		--epochs 6 --seeds 3 --force --out demo

test: .venv/installed
	$(BIN)/ruff check src tests benchmarks examples docs/conf.py
	$(BIN)/ruff format --check src tests benchmarks examples docs/conf.py
	$(BIN)/python -m labelset.pages docs --missing
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest $(SPREAD); tests=$$?; wait $$types && exit $$tests

study: .venv/installed
	$(BIN)/labelset study --out study-run --resume $(STUDY)

docs: .venv/installed
	$(BIN)/python -m labelset.pages docs

site: .venv/installed
	$(BIN)/python -m sphinx -W --keep-going -q docs site

wheel: .venv/installed
	rm -rf dist $(WHEEL)
	$(BIN)/python -m build --no-isolation
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt "$$(ls dist/*.whl)[test]"
	$(WHEEL)/bin/python -P -c 'import labelset, sys; sys.exit("site-packages" not in labelset.__file__)'
	$(WHEEL)/bin/python -m pytest tests $(SPREAD) -p no:cacheprovider

format: .venv/installed
	$(BIN)/ruff check --fix src tests benchmarks examples docs/conf.py
	$(BIN)/ruff format src tests benchmarks examples docs/conf.py

.venv/installed: pyproject.toml constraints.txt
	@echo "Installing into .venv (once; a minute or two) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || echo "no uv: pip it is"
	UV_FIND_LINKS="$${UV_FIND_LINKS-$$($(BIN)/pip config get global.find-links 2>/dev/null)}" \
		$(BIN)/python -m uv pip install --quiet --python $(BIN)/python $(NEEDED) || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check $(NEEDED)
	@touch $@

clean:
	rm -rf .venv build dist site docs/api src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
