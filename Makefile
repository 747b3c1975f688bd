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

demo: setup  ## the tour: look around, train on the glyphs, index, calibrate, search, serve, upgrade vectors, evaluate, report; rows of a table, a toy, the figures
	$(BIN)/surefind doctor
	$(BIN)/surefind check glyphs
	rm -rf demo
	$(BIN)/surefind train glyphs -o demo/model
	$(BIN)/python examples/glyphs.py demo/model --picture demo/surest.png
	$(BIN)/python examples/queries.py demo/queries
	$(BIN)/surefind index demo/model glyphs --part test --remove test/U+0394/012.png --remove test/U+0292/007.png -o demo/index
	$(BIN)/surefind calibrate demo/index --precision 0.8 --foreign-rate 0.05 --plot demo/confidence.png || test $$? = 3
	$(BIN)/surefind info demo/index
	$(BIN)/surefind search demo/index demo/queries -k 3 || test $$? -ge 3
	$(BIN)/surefind verify demo/index
	$(BIN)/python examples/service.py demo/index demo/queries
	$(BIN)/python examples/vectors.py demo
	$(BIN)/surefind upgrade demo/labelled.npz -o demo/vectors-model --precision 0.5 || test $$? = 3
	$(BIN)/surefind index demo/vectors-model demo/gallery.npz -o demo/vectors-index
	$(BIN)/surefind search demo/vectors-index demo/asked.npz -k 3 || test $$? -ge 3
	$(BIN)/surefind evaluate demo/model glyphs -o demo/report
	$(BIN)/surefind reproduce glyphs -o demo/table --rows triplet,tripreg --set schedule.steps=100
	$(BIN)/python examples/toy.py
	$(BIN)/surefind figures all --report demo/report -o demo/figures
	@echo "open demo/report/report.html, or look at the page: $(BIN)/surefind serve demo/index --samples demo/queries --report demo/report"

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
	$(BIN)/python benchmarks/calibrated_search.py
	$(BIN)/python benchmarks/confidence.py
	$(BIN)/python benchmarks/serve.py

faults: setup  ## long runs of extreme inputs
	$(BIN)/python -m pytest -m faults

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
