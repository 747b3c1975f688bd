# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup browser demo test test-milvus check format bench faults clean
setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup  ## the tour: look around, train on the glyphs, index, search, evaluate, report; rows of a table, a toy, the figures
	$(BIN)/surefind doctor
	$(BIN)/surefind check glyphs
	rm -rf demo
	$(BIN)/surefind train glyphs -o demo/model
	$(BIN)/python examples/glyphs.py demo/model --picture demo/surest.png
	$(BIN)/surefind index demo/model glyphs -o demo/index
	$(BIN)/surefind info demo/index
	$(BIN)/surefind search demo/index "$$($(BIN)/python -c 'from surefind.datasets import open_dataset as o; print(o("glyphs").test.file(40))')" -k 3
	$(BIN)/surefind verify demo/index
	$(BIN)/surefind evaluate demo/model glyphs -o demo/report
	$(BIN)/surefind reproduce glyphs -o demo/table --rows triplet,tripreg --set schedule.steps=100
	$(BIN)/python examples/toy.py
	$(BIN)/surefind figures all --report demo/report -o demo/figures
	@echo "open demo/report/report.html"

browser:  ## chromium for the tests of pages; without it they are skipped
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		(apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null)

test: setup browser  ## all tests but the long ones
	$(BIN)/python -m pytest -m "not faults and not milvus"

test-milvus: setup  ## the Milvus engine's own tests: conditions, failures, killed servers
	$(BIN)/python -m pytest -m milvus tests/engines/milvus

check: setup  ## everything a reviewer would ask: format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## side by side with peers; ratios, and JSON in benchmarks/results
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/loss.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/growth.py

faults: setup  ## long runs of extreme inputs
	$(BIN)/python -m pytest -m faults

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
