# make demo   a result in a minute: simulated subjects, what can be said of them, a report
# make test   the tests                   make check  format, lint, types, architecture
# make bench  speed against peers         make pins   recompute requirements.txt
# make losses  every baseline and model on one problem
# make calibrate  every model and method, a thousand simulated data sets each: a quarter of an hour
# make reproduce  every experiment of the paper; writes docs/reproduction.md: some hours on two cores
# make test-long  make fuzz  make mixing  make calibrate-hmc  what takes longer than tests may: see CONTRIBUTING.md
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-long fuzz mixing calibrate-hmc reproduce check format bench losses calibrate pins clean

demo: $(STAMP)
	$(BIN)/manymotives demo --out demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-long: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m long

fuzz: $(STAMP)
	$(BIN)/python tests/tables_at_random.py --inputs 100000 --seconds 3600

mixing: $(STAMP)
	$(BIN)/python -m benchmarks.mixing

calibrate-hmc: $(STAMP)
	$(BIN)/python tests/calibrate_hmc.py

# goes on where it was stopped; OTHER="--seed 1 --out build/another" for other tasks and demonstrations
reproduce: $(STAMP)
	$(BIN)/manymotives reproduce --readings all --out build/reproduction $(OTHER)
	cp build/reproduction/reproduction.md docs/reproduction.md
	rm -rf docs/reproduction && cp -r build/reproduction/reproduction docs/reproduction

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run

losses: $(STAMP)
	$(BIN)/python -m benchmarks.losses

calibrate: $(STAMP)
	PYTHONPATH=tests $(BIN)/python tests/calibrate_at_length.py

$(STAMP): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "manymotives needs Python 3.11 or newer; pass PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

pins: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-annotate --no-header \
	  --no-emit-index-url --no-emit-find-links pyproject.toml --output-file requirements.txt

clean:
	rm -rf $(VENV) .venv-peer demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
