# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

.PHONY: setup browser demo tour test test-rest test-all check format bench docs docs-serve release-check faults clean
setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup  ## everything once on the built-in glyphs
	$(BIN)/surefind demo

tour: demo  ## what the demo leaves out: the machine, the data, pictures, raw pixels as vectors, rows of a table, a toy, figures
	$(BIN)/surefind doctor
	$(BIN)/surefind check glyphs
	rm -rf tour
	$(BIN)/python examples/glyphs.py demo/model --picture tour/surest.png
	$(BIN)/surefind demo --json > tour/table.json
	$(BIN)/python examples/plain_check.py demo tour/table.json
	$(BIN)/surefind info demo/index
	$(BIN)/surefind verify demo/index
	$(BIN)/surefind export demo/model --onnx --int8 glyphs
	$(BIN)/python examples/vectors.py tour
	$(BIN)/surefind upgrade tour/labelled.npz -o tour/vectors-model --precision 0.5 || test $$? = 3
	$(BIN)/surefind index tour/gallery.npz -o tour/vectors-index --model tour/vectors-model
	$(BIN)/surefind search tour/vectors-index tour/asked.npz -k 3 || test $$? -ge 3
	$(BIN)/surefind reproduce glyphs -o tour/table --rows triplet,tripreg --set schedule.steps=100
	$(BIN)/python examples/toy.py
	$(BIN)/surefind figures all --report demo/report -o tour/figures

browser:  ## chromium for the tests of pages; without it they are skipped
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		(apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null)

test: setup browser  ## the quick tier: minutes on two cores
	$(PYTEST) -m "not (slow or milvus or faults)"

test-rest: setup browser  ## what `make test` leaves out: slow tests, Milvus, the whole browser suite
	$(PYTEST) -m "(slow or milvus) and not faults"

test-all: test test-rest  ## all tests but the long ones of `make faults`

check: setup  ## everything a reviewer would ask: format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## every ratio beside its target, in docs/benchmarks.md; BENCH="--data DIR --only NAME"
	$(BIN)/python benchmarks/all.py $(BENCH)

docs: setup  ## the site of the documents, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: setup  ## the same while it is written
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

release-check: setup  ## wheel and sdist; the wheel in an empty environment runs the demo
	PYTHON=$(abspath $(BIN))/python tools/release_check.sh

faults: setup  ## long runs of extreme inputs
	$(BIN)/python -m pytest -m faults

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
