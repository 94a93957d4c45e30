# make demo   a result in a minute or two: simulated subjects, what can be said of them, a report
# make test   the tests                   make check  format, lint, types, architecture
# make bench  speed against peers         make pins   recompute requirements*.txt
# make release  a checked wheel and sdist in dist/, and a tag (DRY=1: without the tag): see CONTRIBUTING.md
# make coverage  branch coverage of src: 40 minutes    make test-lowest  tests with the oldest versions of dependencies
# make docs   the documentation site: open build/site/index.html
# make losses  every baseline and model on one problem
# make large  posteriors on a thousand to ten thousand states: an hour
# make covariates  coverage and bias of a difference between groups, 200 data sets: hours
# make counterfactuals  do intervals hold what is done after a change, 100 studies: a quarter of an hour
# make environments  what two environments teach about a third, beside one, 20 problems: a quarter of an hour
# make design  environments chosen by design, at random or one for good, on random MDPs: an hour
# make buses  posteriors beside maximum likelihood on a published problem of replacing bus engines: half an hour
# make likelihood  maximum likelihood beside a nested fixed point on the same problem, 250 samples × 5 starts × 2 discounts: half an hour
# make switching  two motives that switch, and their number, on a published problem: ten minutes
# make motives  how many motives tasks share, and which: published grids, many tasks, no groups: an hour or two
# make mice DATA=path/to/mouse_labyrinth  what mice short of water want otherwise: minutes
# make labyrinth DATA=path/to/mouse_labyrinth  every model of mice in a labyrinth, each mouse from the others: hours
# make calibrate  every model and method, a thousand simulated data sets each: a quarter of an hour
# make reproduce  every experiment of the paper; writes docs/reproduction.md: hours on two cores
# make test-long  make fuzz  make zoo  make mixing  make calibrate-hmc  make calibrate-large  what takes longer than tests may: see CONTRIBUTING.md
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
STAMP  := $(VENV)/.installed
TOOLS  := build/tools
# without bytecode, which Python makes as it needs it: of all the modules there, few are ever used
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo docs test test-times test-lowest coverage test-long fuzz zoo mixing calibrate-hmc calibrate-large reproduce check format bench large losses covariates environments counterfactuals design mice buses likelihood switching motives labyrinth calibrate pins release clean

demo: $(READY)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/manymotives demo --out demo

# runs the code of pages that changed since it was last run, all of it after a change of the library: a quarter of an hour
docs: $(STAMP)
	$(BIN)/python -m website.outputs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# with bytecode: both workers and the processes that tests start would compile a hundred modules each; workers fill the
# cores, and threads of BLAS in each of them would wait for each other
PYTEST := env -u PYTHONDONTWRITEBYTECODE OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

test: $(STAMP)
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder

test-times: $(STAMP)
	mkdir -p build
	-$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --junitxml build/tests.xml
	$(BIN)/python tests/times_by_file.py build/tests.xml

# branch coverage of src, as a page in build/coverage/html; loops count as covered by tests that run them as plain Python, slowly
PLAIN ?= $(addprefix tests/test_,families.py choice.py hidden_markov.py planning_exact.py updates.py factors.py interweaving.py \
  collapsed.py depth.py short_fits.py)
coverage: $(STAMP)
	rm -rf build/coverage && mkdir -p build/coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest $(PLAIN) -k "not the_exact_one"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet --directory build/coverage/html --fail-under 0
	$(BIN)/python -m coverage report --skip-covered

test-long: $(STAMP)
	CHECK_ALL_TYPES=1 $(BIN)/python -m pytest -n 2 -m long

fuzz: $(STAMP)
	$(BIN)/python tests/tables_at_random.py --seeds 0 50
	$(BIN)/python tests/damaged_files.py --files 500

# SEED=1 for other models; JOBS=8 on more cores
SEED ?= 0
JOBS ?= 2
zoo: $(STAMP)
	mkdir -p build
	$(BIN)/python tests/zoo.py --models 500 --seed $(SEED) --jobs $(JOBS) --out build/zoo-$(SEED).json

mixing: $(STAMP)
	$(BIN)/python -m benchmarks.mixing

calibrate-large: $(STAMP)
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/calibrate_large.py

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

large: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.large_posteriors $(CASES)

covariates: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.covariates --processes $(or $(PROCESSES),2)

counterfactuals: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.counterfactuals --studies 100 --workers $(or $(PROCESSES),2) --out build/counterfactuals.jsonl

environments: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.environments

design: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.environment_design --workers 2

buses: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.buses

likelihood: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.maximum_likelihood --workers $(JOBS)

switching: $(STAMP)
	$(BIN)/python -m benchmarks.switching
	$(BIN)/python -m benchmarks.switching counted

# goes on where it was stopped; DATA=path/to/mouse_labyrinth for the mice too
motives: $(STAMP)
	for kind in grid objects many none; do OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.motives_by_task $$kind || exit 1; done
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.motives_by_task many --tasks 1000
	$(if $(DATA),OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.motives_by_task mice --data "$(DATA)")

# goes on where it was stopped; RUNGS="counts motives" for some of them
RUNGS ?=
mice: $(STAMP)
	@test -n "$(DATA)" || { echo "say where the data are: make mice DATA=path/to/mouse_labyrinth"; exit 2; }
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.mice_effects --data "$(DATA)"

labyrinth: $(STAMP)
	@test -n "$(DATA)" || { echo "say where the data are: make labyrinth DATA=path/to/mouse_labyrinth"; exit 2; }
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.labyrinth --data "$(DATA)" --out build/labyrinth.json $(if $(RUNGS),--rungs $(RUNGS))

losses: $(STAMP)
	$(BIN)/python -m benchmarks.losses

calibrate: $(STAMP)
	PYTHONPATH=tests $(BIN)/python tests/calibrate_at_length.py

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "manymotives needs Python 3.11 or newer; pass PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --requirement requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(STAMP): $(READY) requirements-dev.txt
	$(PIP) --requirement requirements-dev.txt
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	touch $@

# the first for what runs; the second for everything, at the same versions
PINS = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url \
  --no-emit-find-links pyproject.toml
pins: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(PINS) --all-extras --output-file requirements-dev.txt
	$(PINS) --extra build --constraint requirements-dev.txt --output-file requirements.txt

# the oldest versions that pyproject.toml allows, and tests that use each of them; LOWEST_TESTS= for others
LOWEST       := build/lowest
LOWEST_TESTS ?= $(addprefix tests/test_,fit.py archive.py formulas.py environment_tables.py demonstrations_frames.py gymnasium.py \
  families.py findings.py report.py jit.py many_chains.py planning_exact.py cli.py execution.py effects_use.py)
# old packages use what newer ones deprecate
WARN_OF_AGE  := DeprecationWarning PendingDeprecationWarning FutureWarning
test-lowest: $(LOWEST)/.installed
	NUMBA_CACHE_DIR=$(LOWEST)/compiled PYTHONPATH=src:. $(LOWEST)/bin/python -m pytest $(addprefix -W default::,$(WARN_OF_AGE)) $(LOWEST_TESTS)

$(LOWEST)/.installed: pyproject.toml | $(TOOLS)
	$(TOOLS)/bin/uv venv --quiet --clear --python $(PYTHON) $(LOWEST)
	$(TOOLS)/bin/uv pip compile --quiet --resolution lowest-direct --python $(LOWEST)/bin/python --extra test --no-header \
	  --output-file $(LOWEST)/requirements.txt pyproject.toml
	$(TOOLS)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --requirement $(LOWEST)/requirements.txt
	touch $@

# builds, checks, installs and tries the package outside the checkout; DRY=1 makes no tag; REQUIRE= does without missing Pythons
REQUIRE ?= 3.11,3.12,3.13
release: | $(TOOLS)
	$(TOOLS)/bin/python tools/release.py --require "$(REQUIRE)" $(if $(DRY),--dry-run)

$(TOOLS):
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check "build>=1.2" "twine>=6.1" "uv>=0.5" || { rm -rf $@; exit 1; }

clean:
	rm -rf $(VENV) .venv-peer demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
