# Everything a contributor runs. Needs Python 3.11 or later (with its venv module), git and make; all else is
# locked in requirements/ and goes to .venv. `make` alone prints what there is.

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
ENV_STAMP := $(VENV)/.stamp-dev
EDITOR_STAMP := $(VENV)/.stamp-editor
BENCH_STAMP := $(VENV)/.stamp-bench
SERVERS := $(VENV)/servers
SERVERS_STAMP := $(VENV)/.stamp-servers
SITE := $(VENV)/site
SITE_STAMP := $(VENV)/.stamp-site
# `make clean test PYTHON=python3.12` chooses the interpreter; otherwise the newest of these that can make a venv.
PYTHON ?=
PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
# `make test ARGS="tests/kernel/engine -k restart"` and `make test LANE=kernel` narrow a run down.
ARGS ?=
LANE ?=
# `make release SIGNING_KEY=~/.ssh/id_ed25519`
SIGNING_KEY ?=
VERSION ?=

# With it set, every process compiles every import again: four times slower to start.
unexport PYTHONDONTWRITEBYTECODE
# A kernel or tool that borrows somebody else's packages is not the one that was locked.
unexport PYTHONPATH
unexport PYTHONHOME
unexport VIRTUAL_ENV

.DEFAULT_GOAL := help
.PHONY: help demo check test test-matrix bench lint metrics sizes docs site lock version release clean

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: ## Show what Cellwright does, in a minute
	@test -e $(ENV_STAMP) || echo "First everything is installed into $(VENV), about 2 GB: some minutes, this once"
	@$(MAKE) --no-print-directory $(ENV_STAMP) $(EDITOR_STAMP)
	$(BIN)/cellwright demo

# Everything a test of any lane needs.
TESTED := $(ENV_STAMP) $(EDITOR_STAMP) $(SERVERS_STAMP) $(SITE_STAMP)

check: $(ENV_STAMP) ## Run the tests that start no process, in less than a minute
	$(BIN)/python -m tests.lanes --lane unit

test: $(TESTED) ## Run the tests, all but the exhaustive products (ARGS="..." goes to pytest, LANE=kernel runs one lane)
ifeq ($(strip $(ARGS)),)
	$(BIN)/python -m tests.lanes $(addprefix --lane ,$(LANE))
else
	$(BIN)/python -m pytest $(ARGS)
endif

test-matrix: $(TESTED) ## Run the exhaustive products: every escape as every user in every tier, and the like
	$(BIN)/python -m tests.lanes --matrix $(addprefix --lane ,$(LANE))

bench: $(BENCH_STAMP) ## Measure against jupyter_client, nbclient and papermill
	@failed=; for script in benchmarks/bench_*.py; do \
	    echo "== $$script"; $(BIN)/python "$$script" || failed="$$failed $$script"; \
	done; \
	if [ -n "$$failed" ]; then echo "error: below target or broken:$$failed" >&2; exit 1; fi

lint: $(ENV_STAMP) ## Check style, types, layers and the house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.versions >/dev/null
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec compose.yaml
	$(BIN)/hadolint Dockerfile
	$(BIN)/deno fmt --quiet --check --line-width 110 src/cellwright_kernel/deno
	$(BIN)/deno lint --quiet src/cellwright_kernel/deno
	$(BIN)/deno lint --quiet src/cellwright/web/editor src/cellwright/web/widgets
	$(BIN)/python -m pytest -q tests/unit/project/test_house_rules.py

metrics: ## Print how the source reads, in numbers
	python3 scripts/metrics.py

sizes: $(ENV_STAMP) ## Measure what the base install and each extra bring, for docs/reference/sizes.md
	$(BIN)/python -m scripts.sizes

docs: $(ENV_STAMP) ## Run every example of the README and the guides, and check the links
	$(BIN)/python -m pytest tests/system/project/test_docs.py tests/unit/project/test_pages.py $(ARGS)

site: $(ENV_STAMP) $(SITE_STAMP) ## Build the documentation site into build/site, with a search that needs no server
	$(BIN)/python scripts/site.py

# What stands in the environment: --no-config keeps a mirror of one machine out of the files.
LOCK := $(UV) pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

lock: $(UV) ## Resolve pyproject.toml into requirements/ again (UPGRADE=--upgrade takes newer releases)
	$(LOCK) pyproject.toml --all-extras --group build --group test --group lint --group release -o requirements/dev.txt
	$(LOCK) pyproject.toml --all-extras --group build --group test --group lint --group release --group bench \
	    -c requirements/dev.txt -o requirements/bench.txt
	$(LOCK) pyproject.toml -c requirements/dev.txt -o requirements/base.txt
	$(LOCK) pyproject.toml --all-extras -c requirements/dev.txt -o requirements/all.txt
	$(LOCK) --group servers -o requirements/servers.txt
	$(LOCK) --group site -o requirements/site.txt
	echo uv | $(LOCK) - -c requirements/dev.txt -o requirements/tools.txt

version: $(ENV_STAMP) ## Write VERSION=1.2.3 everywhere, and give the changelog its section
	$(BIN)/python -m scripts.versions $(VERSION)
	$(BIN)/python -m cellwright.daemon.greeting_recorder

# Builds from what is committed would need a clone: what is not committed is named instead.
release: $(ENV_STAMP) ## Build wheel, sdist, bundles, bill of materials and checksums (SIGNING_KEY=path signs them)
	@git status --porcelain | sed 's/^/warning: not committed: /' >&2
	$(BIN)/python -m scripts.release $(addprefix --signing-key ,$(SIGNING_KEY))

clean: ## Remove the environment and every cache
	rm -rf $(VENV) $(EDITOR)/../built .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(PYTHONS); do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    no_venv=$$python; \
	    "$$python" -c 'import venv, ensurepip' 2>/dev/null || continue; \
	    echo "$$python -m venv $(VENV)"; exec "$$python" -m venv --clear $(VENV); \
	done; \
	if [ -n "$$no_venv" ]; then \
	    echo "error: $$no_venv has no venv module" >&2; \
	    echo "hint: on Debian and Ubuntu, apt install python3-venv" >&2; \
	else \
	    echo "error: no Python 3.11 or later among: $(PYTHONS)" >&2; \
	    echo "hint: install one, or name it: make PYTHON=/path/to/python3.12" >&2; \
	fi; exit 1

$(UV): requirements/tools.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

# Both stamps also follow pyproject.toml, which holds the entry points of the editable install.
INSTALL_PROJECT := $(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .

$(ENV_STAMP): requirements/dev.txt pyproject.toml | $(UV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements/dev.txt
	$(INSTALL_PROJECT)
	@rm -f $(BENCH_STAMP)
	@touch $@

# The benchmarks' peers come on top of what is there, so that `make test` afterwards has nothing to undo.
$(BENCH_STAMP): requirements/bench.txt $(ENV_STAMP)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements/bench.txt
	$(INSTALL_PROJECT)
	@touch $@

# The page's editor, from npm packages that its lock file holds. Where they cannot be had, the page's plain editor serves.
EDITOR := src/cellwright/web/editor
WIDGETS := src/cellwright/web/widgets

$(EDITOR_STAMP): $(wildcard $(EDITOR)/* $(WIDGETS)/*) | $(ENV_STAMP)
	@rm -rf $(EDITOR)/../built
	$(BIN)/deno bundle --quiet --frozen-lockfile --platform browser --minify --code-splitting \
	    --outdir $(EDITOR)/../built --config $(EDITOR)/deno.json $(EDITOR)/editor.js \
	    || { [ "$$CI" != true ] && echo "note: without the npm packages of the editor the page has its plain one"; }
	$(BIN)/deno bundle --quiet --frozen-lockfile --platform browser --minify --format iife \
	    --output $(EDITOR)/../built/widgets.js --config $(WIDGETS)/deno.json $(WIDGETS)/widgets.js \
	    || { [ "$$CI" != true ] && echo "note: without the npm packages of widgets the page shows their text"; }
	@touch $@

# Jupyter's own servers, for the tests, in an environment of their own: nothing of it is beside our packages.
$(SERVERS_STAMP): requirements/servers.txt | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(SERVERS)
	$(UV) pip sync --quiet --python $(SERVERS)/bin/python --require-hashes --compile-bytecode requirements/servers.txt
	@touch $@

# The site's generator brings a Markdown and a template engine of its own versions: not beside our packages either.
$(SITE_STAMP): requirements/site.txt | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(SITE)
	$(UV) pip sync --quiet --python $(SITE)/bin/python --require-hashes --compile-bytecode requirements/site.txt
	@touch $@
