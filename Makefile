# Everything runs in .venv, which is made on first use from what constraints.txt names; the tests
# with the real frameworks run in .venv-integrations, from constraints-integrations.txt, and with
# their oldest versions in .venv-integrations-oldest. `make bench`, `make docs` and `make test-packaging` have one each.
# Needs Python 3.11 or newer with venv, and make. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INTEGRATIONS := .venv-integrations
OLDEST := $(INTEGRATIONS)-oldest
BENCH := .venv-bench
DOCS := .venv-docs
PACKAGING := .venv-packaging
# The site's builder asks nobody for newer versions, and imports nothing of foldlog.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs
# What the environments with frameworks have as .venv has it.
SHARED := build/lock/shared.txt
# Tests wait for disks and processes a third of their time: half as many again as there are cores.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n + (n + 1) / 2)))
PIP := -m pip --disable-pip-version-check --no-input --quiet --quiet
UV := uv==0.13.9
COMPILE := build/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--annotation-style line --custom-compile-command "make lock" --quiet

.DEFAULT_GOAL := help
# Many tests start processes. Each would compile all that it imports where nothing may be kept.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo build image test test-long test-streams test-packaging faults faults-long test-integrations test-integrations-oldest test-upstream bench lint types docs docs-serve lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-24s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make .venv; the targets below do so by themselves
	@:

demo: $(READY) ## See the log survive: import, follow, kill, recover, rebuild
	@$(BIN)/foldlog demo $(ARGS)

build: $(READY) ## Build the wheel and the sdist into build/dist
	@rm -rf build/dist
	@$(BIN)/python -m hatchling build -d build/dist

image: build ## Build the container image foldlog, of deploy/Dockerfile
	@docker build --file deploy/Dockerfile --tag foldlog $(ARGS) .

test: $(READY) ## Run the tests; ARGS="tests/unit -x" is passed on
	@$(BIN)/python -m pytest -m "not long" -n $(WORKERS) --dist worksteal $(ARGS)

test-long: $(READY) ## Run what the others leave out: sizes, many processes, properties at length
	@$(BIN)/python -m pytest -m "long or hypothesis" --hypothesis-profile many -n $(WORKERS) --dist worksteal --ignore tests/faults --ignore tests/packaging --ignore tests/streams/test_conformance.py $(ARGS)

# Needs Node and the network: npm installs the suite, of one version, into a temporary directory.
test-streams: $(READY) ## Run the Durable Streams protocol's own suite, on the embedded server and on three nodes
	@$(BIN)/python -m pytest tests/streams/test_conformance.py $(ARGS)

# Needs the network: pip installs the wheel as a user would.
test-packaging: $(READY) $(PACKAGING)/.ready ## Install the wheel on every Python at hand, in empty containers or environments
	@$(BIN)/python -m pytest -m long tests/packaging $(ARGS)

faults: $(READY) ## Break everything around the store, and judge it, in under 15 minutes
	@$(BIN)/python -m pytest tests/faults -n 2 --dist worksteal $(ARGS)

faults-long: $(READY) ## The storms of docs/explanation/reliability.md, in an hour or two; ARGS=cluster for one
	@$(BIN)/python -m tests.faults.storms $(ARGS)

test-integrations: $(INTEGRATIONS)/.ready ## Run the tests with the real frameworks; ARGS as for test
	@$(INTEGRATIONS)/bin/python -m pytest tests/integrations tests/mcp -n $(WORKERS) --dist worksteal $(ARGS)

test-integrations-oldest: $(OLDEST)/.ready ## The same with the oldest versions that will do
	@$(OLDEST)/bin/python -m pytest tests/integrations --ignore tests/integrations/semantic \
		-k "not paging_loses_nothing" -n $(WORKERS) --dist worksteal $(ARGS)

# Needs the network once: pip downloads the source archives of the installed versions into build/upstream.
test-upstream: $(INTEGRATIONS)/.ready ## The frameworks' own tests on foldlog; FRAMEWORK=langgraph for one
	@$(INTEGRATIONS)/bin/python -m tests.integrations.upstream $(FRAMEWORK) $(ARGS)

bench: $(BENCH)/.ready ## Measure foldlog beside its peers; ARGS=--quick for all of it, small
	@benchmarks/peers.sh
	@$(BENCH)/bin/python -m benchmarks $(ARGS)

lint: $(READY) ## Check style, types and the layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.typed

types: $(READY) $(INTEGRATIONS)/.ready ## Check that every public name has a type, the adapters' included
	@$(BIN)/python -m tests.typed $(INTEGRATIONS)

docs: $(DOCS)/.ready ## Build the site into build/site; a dead link, a missing anchor or an unreadable docstring is an error
	@$(MKDOCS) build --strict

docs-serve: $(DOCS)/.ready ## Show the site on http://127.0.0.1:8000, built anew at every change
	@$(MKDOCS) serve $(ARGS)

# google-adk wants an older opentelemetry than constraints.txt has, and PenguiFlow an older mcp.
lock: build/lock/bin/uv ## Bring the constraints files in line with their sources; ARGS=--upgrade for newer versions
	@$(COMPILE) pyproject.toml --group dev --output-file constraints.txt $(ARGS)
	@sed -e 's/ \\$$//' -e '/^ /d' -e '/^opentelemetry/d' -e '/^protobuf/d' -e '/^googleapis/d' -e '/^fastapi/d' -e '/^mcp/d' constraints.txt > $(SHARED)
	@$(COMPILE) pyproject.toml tests/integrations/requirements.in \
		--override tests/integrations/overrides.in --constraint $(SHARED) \
		--output-file constraints-integrations.txt $(ARGS)
	@$(COMPILE) pyproject.toml tests/integrations/requirements-oldest.in \
		--override tests/integrations/overrides.in --constraint $(SHARED) \
		--output-file constraints-integrations-oldest.txt $(ARGS)
	@$(COMPILE) pyproject.toml --group bench \
		--override tests/integrations/overrides.in --constraint $(SHARED) \
		--output-file constraints-bench.txt $(ARGS)
	@$(COMPILE) pyproject.toml --group docs --output-file constraints-docs.txt $(ARGS)
	@$(COMPILE) pyproject.toml --group packaging --output-file constraints-packaging.txt $(ARGS)
	@$(COMPILE) pyproject.toml --extra archive --extra nkeys --extra otlp --extra ui \
		--constraint constraints.txt --output-file deploy/requirements.txt $(ARGS)

clean: ## Remove what make and the tools made; never a data directory
	@rm -rf $(VENV) $(INTEGRATIONS) $(OLDEST) $(BENCH) $(DOCS) $(PACKAGING) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src projections tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A half-made environment is removed, so that the next run starts over.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"foldlog needs Python 3.11 or newer; this is %d.%d. Name another: make PYTHON=python3.13 ..." \
		% sys.version_info[:2])'
	@echo "Making $(VENV) and installing what constraints.txt names, once"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# --require-hashes: nothing that was not reviewed gets in. The package itself is built without
# isolation, from the build tools that were just installed, so this step is the last that needs
# a network.
$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@$(BIN)/python $(PIP) install --require-hashes --requirement constraints.txt
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# --no-deps: the file names everything, but for what tests/integrations/overrides.in leaves out.
$(INTEGRATIONS)/.ready $(OLDEST)/.ready $(BENCH)/.ready $(DOCS)/.ready $(PACKAGING)/.ready: .venv-%/.ready: pyproject.toml constraints-%.txt
	@echo "Making $(@D) and installing what constraints-$*.txt names, once"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python $(PIP) install --no-deps --require-hashes \
		--requirement constraints-$*.txt
	@$(@D)/bin/python $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

build/lock/bin/uv: Makefile
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python $(PIP) install '$(UV)'
