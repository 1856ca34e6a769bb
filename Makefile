# Two commands matter: `make demo` and `make test`. Each does its own set-up, so each may be the first one ever run.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.SUFFIXES:
# Where this is set, each of the thousand processes of a test run would compile replog for itself.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTHON := $(BIN)/python
SETUP_DONE := .venv/.setup-done
PYTEST := $(PYTHON) -m pytest -q

.PHONY: help setup demo test test-unit test-processes test-secure test-spark test-foreign fuzz sim sim-variants models nightly chaos check format generate docs bench bench-quick bench-inside bench-partitions bench-attacks bench-storage bench-audit clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(SETUP_DONE)  ## Make .venv with everything pinned (the other targets do this when it is needed)

$(SETUP_DONE): pyproject.toml constraints.txt deploy/setup.sh
	@bash deploy/setup.sh

demo: $(SETUP_DONE)  ## Real records through a crash, and a proof that nothing was lost (about 90 s)
	@$(BIN)/replog demo

test: $(SETUP_DONE)  ## Every test: unit tests first, then real processes, then Spark (about half an hour)
	@$(MAKE) --no-print-directory --keep-going test-unit test-processes test-spark

test-unit: $(SETUP_DONE)  ## The tests that need neither processes nor Spark
	$(PYTEST) -n 4 --dist worksteal -m "not processes and not spark and not foreign"

test-processes: $(SETUP_DONE)  ## The tests that start real brokers and controllers, more at once than there are cores: they wait for much
	$(PYTEST) -n 4 --dist loadfile -m "processes and not spark and not foreign"

test-secure: $(SETUP_DONE)  ## The same with TLS and an authorizer on every local cluster, except those about plaintext
	REPLOG_TEST_SECURE=1 $(PYTEST) -n 2 --dist loadfile -m "processes and not spark and not plaintext" tests/replog --ignore=tests/replog/simulator

test-spark: $(SETUP_DONE)  ## The tests that start a real Spark session
	$(PYTEST) -n 3 --dist loadfile -m "spark and not foreign"

JUDGES := tests/foreign

test-foreign: $(SETUP_DONE)  ## Kafka's clients and their own tests against replog (hours; JUDGES=tests/foreign/test_kcat.py)
	$(PYTEST) --timeout=0 -rA $(JUDGES)

FUZZ := tests/replog/fuzz tests/replog/log/test_log_machine.py tests/replog/log/test_producer_machine.py tests/replog/log/test_kill_machine.py
EXAMPLES := 1000

fuzz: $(SETUP_DONE)  ## Random histories of a log and bytes nobody meant, by chance (about 20 minutes; EXAMPLES=1000)
	REPLOG_SOAK=$(EXAMPLES) $(PYTEST) --timeout=0 $(FUZZ)

SEEDS := 200
PROFILE := swarm

sim: $(SETUP_DONE)  ## Whole clusters under virtual time, with faults from seeds (SEEDS=200 PROFILE=swarm)
	@$(BIN)/replog sim run --seeds $(SEEDS) --profile $(PROFILE) --jobs $$(nproc)

sim-variants: $(SETUP_DONE)  ## Whether the simulator catches protocols that are wrong on purpose, up to 500 seeds each (a quarter of an hour)
	@$(BIN)/python -m tests.replog.simulator.catch --report tests/replog/simulator/variants.txt

MODEL_SECONDS := 300

models: $(SETUP_DONE)  ## Small clusters in every order of their steps, more of them than in `make test` (MODEL_SECONDS=300 of CPU for each of 29)
	@$(PYTHON) -m tests.replog.models.explore --seconds $(MODEL_SECONDS)

SECONDS := 600

nightly: models chaos  ## What every night should run: small models for up to two hours, ten minutes of chaos, a seed by chance; needs root

chaos: $(SETUP_DONE)  ## Real processes in network namespaces, hurt as a seed decides; needs root (SECONDS=600 SEED=…)
	@$(PYTHON) -m replog.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

check: $(SETUP_DONE)  ## Format, lint, types, import rules, and generated code against what it is made from
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTHON) -m replog.rpc.generate --check
	$(PYTHON) replog/client/generate.py --check
	$(PYTHON) -m replog.kafka.generate --check

format: $(SETUP_DONE)  ## Format and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(SETUP_DONE)  ## Generate replog/rpc/v1 from proto/, the blocking clients from the async ones, the types of Kafka's messages
	$(PYTHON) -m replog.rpc.generate
	$(PYTHON) replog/client/generate.py
	$(PYTHON) -m replog.kafka.generate

docs: $(SETUP_DONE)  ## The documents as a site, into build/site
	$(PYTHON) -m mkdocs build

RESULTS := benchmarks/results

bench: $(SETUP_DONE)  ## replog beside Apache Kafka and raw sockets, into docs/performance.md and benchmarks/results (about 20 minutes; needs Java, Maven)
	$(PYTHON) -m benchmarks.peers.side_by_side --json $(RESULTS)/side_by_side.json --report docs/performance.md
	$(PYTHON) -m benchmarks.peers.quick --store

bench-quick: $(SETUP_DONE)  ## replog beside raw sockets: fails if a ratio has dropped by a fifth since `make bench` (90 seconds)
	$(PYTHON) -m benchmarks.peers.quick

bench-inside: $(SETUP_DONE)  ## What a record costs inside: calls of functions, turns of the event loop, where the time goes, into docs/performance.md (half a minute)
	$(PYTHON) -m benchmarks.inside --report docs/performance.md

bench-partitions: $(SETUP_DONE)  ## 6 to 5,000 partitions beside Apache Kafka, into benchmarks/results (takes long: for each size, a minute until files are removed)
	$(PYTHON) -m benchmarks.partitions --json $(RESULTS)/partitions.json

bench-attacks: $(SETUP_DONE)  ## Clients that ask for much and take nothing, beside a steady producer, into benchmarks/results (seven minutes)
	$(PYTHON) -m benchmarks.attacks --json $(RESULTS)/attacks.json

bench-storage: $(SETUP_DONE)  ## Recovery and cleaning beside reads of the same bytes (half a minute)
	$(PYTHON) -m benchmarks.logs storage --rounds 7

bench-audit: $(SETUP_DONE)  ## The audit's levels beside sha256sum (some minutes, 6 GB of disk)
	$(PYTHON) -m benchmarks.logs audit --mib 2048

clean:  ## Remove caches and reports (delete .venv by hand to redo the set-up)
	rm -rf build dist artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
