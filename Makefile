# The only way in. `make doctor` and `make test` set themselves up from a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY  := $(VENV)/.ready
PACKAGES := $(VENV)/.packages
CORE     := */zombiescope/facts/*,*/zombiescope/analysis/*,*/zombiescope/diagnosis/*,*/zombiescope/presenters/*,*/zombiescope/profiler/stacks/*,*/zombiescope/profiler/perf/*,*/zombiescope/profiler/formats/*,*/zombiescope/profiler/drawing/*

# What is made while the machines run: work of a CPU, that no clock judges.
BESIDE   := lint test-unit test-packages fuzz-short
# What is made after that, one by one.
ALONE    := test-kernel test-hostile test-browser test-server

.DEFAULT_GOAL := help
.PHONY: help doctor test test-house test-unit test-packages test-kernel test-server test-browser test-vm test-vm-all test-calm test-hostile test-busy test-one-core fuzz fuzz-short lint types imports format bench gallery size pyz clean

help:            ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 18

$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(READY): $(INSTALLED) requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@$(BIN)/python tools/build_scanner.py
	@touch $@

$(PACKAGES): tools/install-packages
	@tools/install-packages
	@mkdir -p $(VENV) && touch $@

doctor: $(INSTALLED) ## set up, then run the main job on this host
	@$(BIN)/zombiescope doctor

test:            ## everything CI requires: the machines beside what needs no clock, then what does
	@began=$$(date +%s); $(MAKE) --no-print-directory --jobs=2 $(READY) $(PACKAGES) && \
		ZOMBIESCOPE_BEGAN=$$began $(BIN)/python -m tools.side_by_side test-vm test-calm -- $(BESIDE) -- $(ALONE)

test-busy: $(READY) $(PACKAGES) ## `make test` beside four busy processes; prints which tests were run again
	@$(BIN)/python tools/beside_busy.py 4 $(MAKE) --no-print-directory test

test-one-core: $(READY) $(PACKAGES) ## the tiers that need a clock, on one core; prints which tests were run again
	@taskset --cpu-list 0 $(BIN)/python -m tools.side_by_side -- -- $(ALONE)

lint: $(READY)   ## format, lint, types, imports
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY) ## rewrite the sources in the house format
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix .

test-unit: $(READY) ## the shape of the house and every room alone; no root, no network
	$(BIN)/python -m coverage run -m pytest tests/house tests/unit tests/profiler
	@$(BIN)/python -m coverage report --skip-covered --fail-under=90 --include='$(CORE)'

test-packages: $(READY) $(PACKAGES) ## real trees from Debian's packages, against systemctl; a skip is a failure
	ZOMBIESCOPE_REQUIRE=packages $(BIN)/python -m pytest tests/packages

test-kernel: $(READY) $(PACKAGES) ## the running kernel, as root; a skip is a failure
	ZOMBIESCOPE_REQUIRE=kernel $(BIN)/python -m pytest tests/kernel

test-hostile: $(READY) $(PACKAGES) ## attacks of an unprivileged neighbour and of strangers' files on the installed command; a skip is a failure
	ZOMBIESCOPE_REQUIRE=hostile $(BIN)/python -m pytest tests/hostile

test-server: $(READY) $(PACKAGES) ## a real Prometheus scrapes the agent; what we export is accepted; a skip is a failure
	ZOMBIESCOPE_REQUIRE=server $(BIN)/python -m pytest tests/server

test-calm: $(READY) $(PACKAGES) ## five real minutes of an agent beside churn and a leak; `make test-server` reads what was seen within the hour
	@rm -f build/calm/outcome.json
	ZOMBIESCOPE_REQUIRE=server $(BIN)/python -m pytest tests/server/test_calm.py

test-browser: $(READY) $(PACKAGES) ## the page in headless Chromium; a skip is a failure
	ZOMBIESCOPE_REQUIRE=browser $(BIN)/python -m pytest tests/browser

test-vm: $(READY) $(PACKAGES) ## other kernels and hierarchies under QEMU, the required cells; a skip is a failure
	ZOMBIESCOPE_REQUIRE=vm $(BIN)/python -m pytest --capture=sys tests/vm

test-vm-all: $(READY) $(PACKAGES) ## every cell of the kernel matrix
	ZOMBIESCOPE_REQUIRE=vm ZOMBIESCOPE_VM_CELLS=all $(BIN)/python -m pytest --capture=sys tests/vm

fuzz: $(READY) $(PACKAGES) ## 10,000 mutations per reader of strangers' files, in children with limits; a traceback is a failure
	$(BIN)/python tools/fuzz.py 10000

fuzz-short: $(READY) $(PACKAGES) ## the first 300 of them
	$(BIN)/python tools/fuzz.py 300

bench: $(READY)  ## every benchmark: ours, the other's, the ratio
	@for b in bench/bench_*.py; do echo "== $$b"; PYTHONPATH=. $(BIN)/python $$b || exit 1; done

gallery: $(READY) $(PACKAGES) ## the pictures of the page in docs/pictures/page, over real lab zombies and the incident, as root; then look at them
	@$(BIN)/python -m tools.make_gallery

size:            ## modules and statements of the package; python tools/house_size.py --against REVISION compares
	@$(PYTHON) tools/house_size.py

pyz: $(READY)    ## one self-contained file that runs with a plain python3
	@$(BIN)/python tools/build_pyz.py

clean:           ## remove what was built
	rm -rf $(VENV) build dist
