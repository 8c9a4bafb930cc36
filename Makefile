# The only way in. `make doctor` and `make test` set themselves up from a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY  := $(VENV)/.ready
PACKAGES := $(VENV)/.packages
RELEASE_PACKAGES := $(VENV)/.packages-release
PREFIX ?= /usr/local
EXTRAS ?= agent,profile,tui,manifests
OWN    := $(PREFIX)/lib/zombiescope
CORE     := */zombiescope/facts/*,*/zombiescope/analysis/*,*/zombiescope/diagnosis/*,*/zombiescope/presenters/*,*/zombiescope/profiler/stacks/*,*/zombiescope/profiler/perf/*,*/zombiescope/profiler/formats/*,*/zombiescope/profiler/drawing/*

# The machines, and what they leave a core for when they are through; two that mostly wait.
BEHIND   := test-vm+test-gate+test-strange test-calm test-recorder
# What is made while the machines run: work of a CPU, that no clock judges.
BESIDE   := lint test-unit test-packages fuzz-short onefile-x86_64 test-onefile-machines test-docs kubernetes-node test-release-short
# What is made after that, one by one.
ALONE    := test-kernel test-hostile test-browser test-server test-onefile-short test-guides test-kubernetes
# What asks the command of the product, and can so be asked of the one file.
ONEFILE_ALONE := tests/onefile/test_file.py tests/onefile/test_bare_root.py tests/kernel/test_self_check.py tests/unit/cli/test_process.py \
	tests/kernel/test_lab_readers.py tests/server/test_killed.py
ONEFILE_ALL   := tests/onefile tests/unit/cli/test_process.py tests/kernel/test_self_check.py tests/kernel/test_lab_readers.py tests/kernel/test_lab_zombies.py \
	tests/kernel/test_lab_clean.py tests/kernel/test_scan_truth.py tests/kernel/test_remedies.py tests/kernel/test_reap.py tests/kernel/test_cores.py \
	tests/server/test_agent.py tests/server/test_killed.py tests/server/test_trouble.py

.DEFAULT_GOAL := help
# Every target that says what it makes is a word, not a file.
.PHONY: $(shell sed -nE 's/^([a-z0-9_-]+):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

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

$(RELEASE_PACKAGES): tools/install-packages
	@tools/install-packages release
	@mkdir -p $(VENV) && touch $@

doctor: $(INSTALLED) ## set up, then run the main job on this host
	@$(BIN)/zombiescope doctor

test:            ## everything CI requires: the machines beside what needs no clock, then what does
	@began=$$(date +%s); $(MAKE) --no-print-directory --jobs=2 $(READY) $(PACKAGES) && \
		ZOMBIESCOPE_BEGAN=$$began $(BIN)/python -m tools.side_by_side $(BEHIND) -- $(BESIDE) -- $(ALONE)

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

test-strange: $(READY) $(PACKAGES) ## every reading command where /proc, /sys, BPF or rights are missing, and under gVisor; a skip is a failure
	ZOMBIESCOPE_REQUIRE=strange $(BIN)/python -m pytest tests/strange

test-gate: $(READY) $(PACKAGES) ## images: XFS in LVM in qcow2 through libguestfs, the incident's image booted, twelve trees; a skip is a failure
	ZOMBIESCOPE_REQUIRE=gate $(BIN)/python -m pytest tests/gate -m 'not on_demand'

test-gate-all: $(READY) $(PACKAGES) ## the same, hostile file systems and a clean boot too
	ZOMBIESCOPE_REQUIRE=gate $(BIN)/python -m pytest tests/gate

test-kernel: $(READY) $(PACKAGES) ## the running kernel, as root; a skip is a failure
	ZOMBIESCOPE_REQUIRE=kernel $(BIN)/python -m pytest tests/kernel

test-hostile: $(READY) $(PACKAGES) ## attacks of an unprivileged neighbour and of strangers' files on the installed command; a skip is a failure
	ZOMBIESCOPE_REQUIRE=hostile $(BIN)/python -m pytest tests/hostile

test-server: $(READY) $(PACKAGES) ## a real Prometheus scrapes the agent; what we export is accepted; a skip is a failure
	ZOMBIESCOPE_REQUIRE=server $(BIN)/python -m pytest tests/server

test-calm: $(READY) $(PACKAGES) ## five real minutes of an agent beside churn and a leak; `make test-server` reads what was seen within the hour
	@rm -f build/calm/outcome.json
	ZOMBIESCOPE_REQUIRE=server $(BIN)/python -m pytest tests/server/test_calm.py

test-recorder: $(READY) $(PACKAGES) ## three minutes of a recorder that is killed, left without room and given another time, over real load; a skip is a failure
	ZOMBIESCOPE_REQUIRE=recorder $(BIN)/python -m pytest -rP tests/recorder

test-recorder-hour: $(READY) $(PACKAGES) ## on demand: an hour of it
	ZOMBIESCOPE_REQUIRE=recorder ZOMBIESCOPE_SOAK_MINUTES=60 $(BIN)/python -m pytest -rP tests/recorder

test-browser: $(READY) $(PACKAGES) ## the page in headless Chromium; a skip is a failure
	ZOMBIESCOPE_REQUIRE=browser $(BIN)/python -m pytest tests/browser

test-fleet-real: $(READY) $(PACKAGES) ## on demand: two machines in which a unit loops, two agents here, a real Prometheus; commands and page say so
	$(BIN)/python -m pytest -s tests/fleet_real

test-ray: $(READY) ## on demand: a real Ray from PyPI (70 MB), its dashboard read by --events; an archive asked on a cluster of two nodes
	@build/ray/bin/python -c 'import ray, duckdb, pyarrow, numpy' 2>/dev/null || { $(PYTHON) -m venv build/ray && \
		build/ray/bin/pip install --quiet --disable-pip-version-check 'ray[default]' duckdb pyarrow numpy rich; }
	ZOMBIESCOPE_RAY=$(CURDIR)/build/ray $(BIN)/python -m pytest tests/ray

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

onefile: $(READY) $(PACKAGES) ## dist/zombiescope-ARCH, static, for hosts with an old Python or none; ARCH=x86_64 or aarch64 for one
	@$(BIN)/python -m tools.onefile $(ARCH:%=--arch %)

onefile-x86_64: $(READY) $(PACKAGES) ## that of x86_64 alone, as CI builds it
	@$(BIN)/python -m tools.onefile --arch x86_64

test-onefile: $(READY) $(PACKAGES) onefile-x86_64 ## kernel, process and agent tests with the one file as the command, and in machines without Python
	ZOMBIESCOPE_REQUIRE=onefile,kernel,server ZOMBIESCOPE_COMMAND=dist/zombiescope-x86_64 $(BIN)/python -m pytest $(ONEFILE_ALL)

test-onefile-short: $(READY) $(PACKAGES) onefile-x86_64 ## what CI runs of them
	ZOMBIESCOPE_REQUIRE=onefile,kernel,server ZOMBIESCOPE_COMMAND=dist/zombiescope-x86_64 $(BIN)/python -m pytest $(ONEFILE_ALONE)

test-onefile-machines: $(READY) $(PACKAGES) onefile-x86_64 ## the one file on 5.10 and 6.1, in a root without any Python
	ZOMBIESCOPE_REQUIRE=onefile,vm ZOMBIESCOPE_COMMAND=dist/zombiescope-x86_64 $(BIN)/python -m pytest --capture=sys tests/onefile/test_machines.py

test-onefile-arm64: $(READY) $(PACKAGES) ## on demand: the aarch64 file in arm64 machines with pages of 4 and 16 KiB, in a root without any Python
	@$(BIN)/python -m tools.onefile --arch aarch64
	ZOMBIESCOPE_REQUIRE=onefile,vm ZOMBIESCOPE_COMMAND=dist/zombiescope-aarch64 $(BIN)/python -m pytest --capture=sys tests/onefile/test_machines.py

image: $(READY) $(PACKAGES) ## dist/image/zombiescope-image.tar, one OCI image for amd64 and arm64 with its bill of materials, offline from the one-file build
	@$(BIN)/python -m tools.onefile
	@$(BIN)/python -m tools.image

manifests: $(READY) ## dist/manifests: the Kustomize tree, the Helm chart, the kubectl plugin for krew
	@$(BIN)/python tools/make_manifests.py

kubernetes-node: $(READY) $(PACKAGES) ## the programs of a Kubernetes node, from Debian's source; kept by content (about 5 minutes of a CPU when missing)
	@$(BIN)/python -m tests.kubernetes.build

test-kubernetes: $(READY) $(PACKAGES) onefile-x86_64 kubernetes-node ## a real cluster of one node, our DaemonSet and the commands of the guides in it; a skip is a failure
	ZOMBIESCOPE_REQUIRE=kubernetes $(BIN)/python -m pytest -rP tests/kubernetes -m 'not on_demand'

test-kubernetes-machine: $(READY) $(PACKAGES) onefile-x86_64 kubernetes-node ## on demand: the same story on cgroup v2 with the systemd driver, and a kubelet alone, in emulated machines
	ZOMBIESCOPE_REQUIRE=kubernetes ZOMBIESCOPE_KUBERNETES_MACHINE=1 $(BIN)/python -m pytest -rP tests/kubernetes/test_story.py tests/kubernetes/test_machine.py -m on_demand

test-image-machines: $(READY) $(PACKAGES) ## on demand: the image of both platforms as its configuration says, in an x86-64 and an arm64 machine
	@$(BIN)/python -m tools.onefile
	ZOMBIESCOPE_REQUIRE=kubernetes ZOMBIESCOPE_IMAGE_MACHINES=1 $(BIN)/python -m pytest -rP tests/kubernetes/test_image_machine.py -m on_demand

pyz: $(READY)    ## one self-contained file that runs with a plain python3
	@$(BIN)/python tools/build_pyz.py

release: $(READY) $(RELEASE_PACKAGES) ## everything that people install, in dist/release, with checksums: docs/guides/release.md
	@$(BIN)/python -m tools.release

test-release: $(READY) $(PACKAGES) release ## on demand: every file of the release as the install page tells it, in bare roots and a machine
	ZOMBIESCOPE_REQUIRE=release,vm $(BIN)/python -m pytest --capture=sys tests/release
	ZOMBIESCOPE_REQUIRE=onefile,vm ZOMBIESCOPE_COMMAND=dist/release/zombiescope-aarch64 $(BIN)/python -m pytest --capture=sys tests/onefile/test_machines.py

test-release-short: $(READY) $(PACKAGES) ## what CI makes and tries of it: wheel, sdist, pyz, one file and deb for x86_64
	@$(BIN)/python -m tools.release --only python,pyz,onefile,deb --once --uncommitted --arch x86_64 --out dist/release-short
	ZOMBIESCOPE_REQUIRE=release ZOMBIESCOPE_RELEASE=dist/release-short $(BIN)/python -m pytest tests/release -m 'not on_demand'

install:         ## into PREFIX (/usr/local): the command with all it needs, its manual pages, completion; EXTRAS= for the reading commands alone
	@mkdir -p $(PREFIX)/bin $(PREFIX)/lib $(PREFIX)/share/man/man1 $(PREFIX)/share/bash-completion/completions 2>/dev/null && test -w $(PREFIX)/bin || \
		{ echo "cannot write to $(PREFIX): sudo make install, or make install PREFIX=\$$HOME/.local" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(OWN)
	@$(OWN)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir '.$(if $(EXTRAS),[$(EXTRAS)])'
	@ln -sfn $(OWN)/bin/zombiescope $(PREFIX)/bin/zombiescope
	@$(OWN)/bin/python -B tools/write_man.py $(PREFIX)/share/man/man1
	@$(OWN)/bin/zombiescope completion bash > $(PREFIX)/share/bash-completion/completions/zombiescope
	@echo "$(PREFIX)/bin/zombiescope: $$($(OWN)/bin/zombiescope --version); to remove it: make uninstall$(if $(filter-out /usr/local,$(PREFIX)), PREFIX=$(PREFIX))"

uninstall:       ## remove what `make install` put into PREFIX
	rm -rf $(OWN) $(PREFIX)/bin/zombiescope $(PREFIX)/share/man/man1/zombiescope.1 $(PREFIX)/share/man/man1/zombiescope-*.1 $(PREFIX)/share/bash-completion/completions/zombiescope

docs: $(READY)   ## the documentation as a searchable site in site/; a warning or a dead link is a failure
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict   # not --quiet: it hides warnings from --strict, too
	@$(BIN)/python tools/check_site.py site
	@echo "to read it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory site 8000"

man: $(READY)    ## a manual page per command in build/man
	@$(BIN)/python tools/write_man.py

test-docs: $(READY) $(PACKAGES) docs man ## the site builds without a warning, no link is dead, mandoc accepts every manual page
	@mandoc -T lint -W warning build/man/*.1

test-guides: $(READY) $(PACKAGES) ## every command of README, tutorial and guides, literally, in a clean clone; a skip is a failure
	ZOMBIESCOPE_REQUIRE=guides $(BIN)/python -m pytest -rP tests/guides

pictures: $(READY) ## the terminal's pictures in docs/pictures, from recorded machines
	@$(BIN)/python tools/write_pictures.py

clean:           ## remove what was built
	rm -rf $(VENV) build dist site
