# Every task of the project. `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Torch without CUDA. Empty: the index that pip is configured for, which then must have the CPU build.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
PEERS := .venv-peers
INTEGRATIONS := .venv-integrations
# Kustomize's own files, and KEDA's, are of kinds that Kubernetes itself does not know; tests/contract looks at them.
MANIFESTS := $(filter-out %/kustomization.yaml deploy/kubernetes/components/keda/%, $(wildcard deploy/kubernetes/*.yaml deploy/kubernetes/*/*.yaml deploy/kubernetes/*/*/*.yaml))

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:.*## / {print $$1}' Makefile)

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Everything but torch by hash, torch alone from its own index, then the library and the application.
$(STAMP): pyproject.toml library/pyproject.toml locks/dev.txt constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --only-binary :all: -r locks/dev.txt
	$(PIP) install --no-deps --retries 2 $(if $(TORCH_CPU_INDEX),--index-url $(TORCH_CPU_INDEX)) -c constraints-cpu.txt torch
	$(PIP) install --no-deps --no-build-isolation -e ./library -e .
	@touch $(STAMP)

install: $(STAMP) ## make .venv and install everything into it

demo: $(STAMP) ## the main job, end to end, on two real classifiers
	@$(BIN)/calibrant demo

serve: $(STAMP) ## run everything on 127.0.0.1:8000, data in .calibrant/; Ctrl-C stops it
	@$(BIN)/calibrant serve

# A process a core; files in their order, for those that start services come early and take longest.
# A process that crashes ends in a failed run: started again, it would run the test that crashed it for ever.
test: $(STAMP) ## the whole test suite; installs a Chromium for it where there is none
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder

fuzz: $(STAMP) ## Schemathesis over the whole API: every phase, 2,000 examples a call
	$(BIN)/python -m tests.fuzz

openapi-clients: $(STAMP) ## generate clients in Python and TypeScript from the OpenAPI document, and lint it; needs npm
	$(BIN)/python -m tests.openapi

check: $(STAMP) ## lint, types, architecture, dependencies, containers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	cd library && ../$(BIN)/deptry .
	$(BIN)/hadolint docker/Dockerfile
	CALIBRANT_REDIS_PASSWORD=checked $(BIN)/docker-compose --profile gpu config -q
	$(BIN)/kubernetes-validate --strict --quiet $(MANIFESTS)

image-test: $(STAMP) ## build the images without a container engine, run them and post to them; as root, with buildah and debootstrap
	$(BIN)/python -m tests.images

# All locks have the versions of locks/dev.txt. Torch is in none: its hashes differ by index.
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --only-binary :all: --no-emit-package torch --no-emit-package calibrant --custom-compile-command 'make lock'
LOCK_CPU := $(LOCK) -c constraints-cpu.txt --excludes locks/without-cuda.txt

lock: $(STAMP) ## lock the dependencies of pyproject.toml with hashes, keeping versions where possible; writes locks/
	$(LOCK_CPU) $(UPGRADE) --extra dev --group build -o locks/dev.txt
	$(LOCK_CPU) $(UPGRADE) -c locks/dev.txt --extra arrow --extra telemetry -o locks/api.txt
	$(LOCK_CPU) $(UPGRADE) -c locks/dev.txt --extra arrow --extra telemetry --extra worker -o locks/worker-cpu.txt
	$(LOCK) -c constraints-gpu.txt $(UPGRADE) -c locks/dev.txt --extra arrow --extra telemetry --extra worker -o locks/worker-gpu.txt
	$(subst pyproject.toml,,$(LOCK)) $(UPGRADE) -c locks/dev.txt --group build -o locks/build.txt

upgrade: ## the same with the newest versions
	$(MAKE) lock UPGRADE=--upgrade

licences: $(STAMP) ## the licence of every locked package, asked of pip's index; writes docs/reference/licences.md
	$(BIN)/python -m benchmarks.licences

image-digests: ## pin the base images by the digests that their registry has now; with skopeo, crane or docker
	$(PYTHON) docker/digests.py

bench: $(STAMP) ## the committed timings; writes docs/benchmarks/speed.md
	$(BIN)/python -m benchmarks.speed

bench-ledger: $(STAMP) ## rows committed to a monitor with their ids, and buckets read back
	$(BIN)/python -m benchmarks.monitors.ledger

bench-http: $(STAMP) ## the service over HTTP beside a bare FastAPI route, by wrk; writes docs/benchmarks/http-speed.md
	$(BIN)/python -m benchmarks.http.run

monitor-answers: $(STAMP) ## how long one window's answer takes over HTTP; writes docs/benchmarks/monitor-answers.md
	$(BIN)/python -m benchmarks.monitors.answers
large-data: $(STAMP) ## counting Parquet by one process, Dask and DuckDB: 1e7 and 1e8 rows; writes docs/benchmarks/large-data-speed.md
	$(BIN)/python -m benchmarks.large_data

report-speed: $(STAMP) ## diagrams and reports over HTTP; writes docs/benchmarks/report-speed.md
	$(BIN)/python -m benchmarks.http.reports

$(PEERS)/installed: benchmarks/peers/requirements.txt constraints-cpu.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -c constraints-cpu.txt
	@touch $@

peers: $(PEERS)/installed ## time, memory and numbers beside other libraries (1.5 GB); writes docs/benchmarks/peers.md
	$(PEERS)/bin/python -m benchmarks.peers.run

map-speed: $(PEERS)/installed ## time of fitting and applying maps beside other libraries; writes docs/benchmarks/map-speed.md
	$(PEERS)/bin/python -m benchmarks.peers.maps

optima: $(PEERS)/installed ## log loss of our fits and the peers' on their own rows: make optima DATA=folder; writes docs/benchmarks/optima.md
	$(PEERS)/bin/python -m benchmarks.peers.optima $(DATA)

$(INTEGRATIONS)/installed: tests/integration/platforms.txt pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r $< -c constraints-cpu.txt
	@touch $@

integrations: $(INTEGRATIONS)/installed ## the pages of MLflow and Evidently, and KServe's client, run with those libraries (1.5 GB)
	$(INTEGRATIONS)/bin/python -m pytest tests/integration/test_platform_pages.py

coverage: $(STAMP) ## how often the intervals cover the truth; writes docs/benchmarks/interval-coverage.md
	$(BIN)/python -m benchmarks.coverage

calibration-test: $(STAMP) ## size and power of the smooth test; writes docs/benchmarks/calibration-test.md
	$(BIN)/python -m benchmarks.calibration_test

alarms: $(STAMP) ## false alarms and delays of monitors, beside KS, some 10 minutes; writes docs/benchmarks/alarms.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.monitors.alarms

tally-accuracy: $(STAMP) ## measures from tallies beside those of their rows; writes docs/benchmarks/tally-accuracy.md
	$(BIN)/python -m benchmarks.monitors.accuracy

tally-speed: $(STAMP) ## counting rows, merging and reading 10,000 tallies, the test; writes docs/benchmarks/tally-speed.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.monitors.merging

tables: $(STAMP) ## the paper's Tables F20 to F23, resumed where it stopped; writes docs/benchmarks/tables.md
	$(BIN)/python -m benchmarks.tables.run

real: $(STAMP) ## held-out log loss on real predictions: make real DATA=folder; writes docs/benchmarks/real-data.md
	$(BIN)/python -m benchmarks.real $(DATA)

compare: $(STAMP) ## every calibrator on real predictions: make compare [DATA=folder]; writes docs/benchmarks/calibrators.md
	$(BIN)/python -m benchmarks.compare $(DATA)

start-times: $(STAMP) ## the import, the command and the service from their start; writes docs/benchmarks/start-times.md
	$(BIN)/python -m benchmarks.start_times

page-speed: $(STAMP) ## the page in a real browser: its first paint, a file to its report; writes docs/benchmarks/page-speed.md
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m benchmarks.page_speed

screenshots: $(STAMP) ## pictures of the page on the demo's classifiers; writes docs/pictures/page-*.png
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m benchmarks.screenshots

examples: $(STAMP) ## the answers of the OpenAPI document's examples, from a service started for them
	$(BIN)/python -m benchmarks.examples

comparing: $(STAMP) ## how often comparisons of maps are wrong; writes docs/benchmarks/comparison-error.md
	$(BIN)/python -m benchmarks.comparison_error

docs: $(STAMP) ## build the documentation site offline, with warnings as errors; writes docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

reference: $(STAMP) ## the pages of docs/reference that are generated from the code: measures, diagrams, methods, settings, commands, problems, calls, metrics
	$(BIN)/python -m benchmarks.pages

gallery: $(STAMP) ## every picture of the gallery; writes docs/reference/gallery.md and docs/pictures/gallery
	$(BIN)/python -m benchmarks.gallery

pictures-golden: $(STAMP) ## draw the golden images that have changed; look at them; writes tests/golden/pictures
	$(BIN)/python -m tests.unit.plots
	$(BIN)/python -m tests.unit.benchmarks.gallery_images

pictures-speed: $(STAMP) ## time of drawing each picture; writes docs/benchmarks/picture-speed.md
	$(BIN)/python -m benchmarks.pictures

agreement: $(STAMP) ## our values beside those of published code; writes docs/benchmarks/agreement.md
	$(BIN)/python -m benchmarks.agreement

pseudo-real: $(STAMP) ## the evaluators beside a nearly known truth, resumed where it stopped; writes docs/benchmarks/pseudo-real.md
	$(BIN)/python -m benchmarks.pseudo_real

chaos: $(STAMP) ## kills, pauses, a full disk and clock steps on one machine, some 12 minutes; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.run

chaos-net: $(STAMP) ## the same over four network namespaces, one worker's machine cut off; as root; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.network

attack: $(STAMP) ## hostile requests of one tenant, and what another sees of them; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.attack

throughput: $(STAMP) ## 1,000 small fits through the queue, beside plain RQ; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.throughput

soak: $(STAMP) ## 20 clients for 5 minutes: answers, latency, memory; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.soak

monitor-speed: $(STAMP) ## how fast monitors take in rows, in every format; writes docs/benchmarks/monitor-speed.md
	$(BIN)/python -m benchmarks.monitors.ingest

monitor-memory: $(STAMP) ## memory after 1e6 and 1e8 rows, and of ids that are forgotten; writes docs/benchmarks/monitor-memory.md
	$(BIN)/python -m benchmarks.monitors.memory

monitor-chaos: $(STAMP) ## 1e6 rows by 8 processes that are killed at random, 5 % twice; writes docs/benchmarks/monitor-chaos.md
	$(BIN)/python -m benchmarks.monitors.killed

format: $(STAMP) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## forget the virtual environments and every cache
	rm -rf $(VENV) $(PEERS) $(INTEGRATIONS) .openapi-clients .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
