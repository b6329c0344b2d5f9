# Two commands set everything up on a machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test docs torture mutants lint format bench peers reproduce wheel release-check test-oldest clean

demo: $(VENV)/.demo
	$(BIN)/kernelsieve demo --out demo/index.html

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --durations=25 $(PYTEST_ARGS)

# The tests with the lowest version of everything that pyproject.toml allows, in an environment of its own.
test-oldest: build/oldest/.installed
	build/oldest/bin/python -m pytest -n auto --durations=25 $(PYTEST_ARGS)

build/oldest/.installed: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv --clear build/oldest
	$(PYTHON) .ci/oldest.py > build/oldest/versions.txt
	build/oldest/bin/python -m pip --disable-pip-version-check --quiet install --editable . --requirement build/oldest/versions.txt
	@touch $@

# Seeded fault campaigns (tests/torture): make torture TORTURE="fits --seed 7", or TORTURE="--seconds 300" for a slice.
torture: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m torture $(TORTURE)

# Changes of the source that no test notices (tests/mutation): make mutants MUTANTS="--seed 3 --number 40 linear rows".
mutants: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m mutation $(MUTANTS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Measured figures, kept in benchmarks/RESULTS.md.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.bench

# The race against other ways to do kernel PCA, in an environment of its own: benchmarks/PEERS.json and docs/peers.md.
peers: build/peers/.installed
	PYTHONPATH=src build/peers/bin/python -m benchmarks.peers_features
	PYTHONPATH=src build/peers/bin/python -m benchmarks.peers_examples
	PYTHONPATH=src build/peers/bin/python -m benchmarks.peers $(PEERS)

build/peers/.installed: benchmarks/peers.txt
	$(PYTHON) -m venv --clear build/peers
	build/peers/bin/python -m pip --disable-pip-version-check --quiet install --requirement benchmarks/peers.txt
	@touch $@

# The papers' experiments: experiments/output/index.md and a page for each; REPRODUCE="xu_2011", "--quick" in short, or
# "--record" to keep the results in experiments/results, which the site quotes.
reproduce: $(VENV)/.dev
	$(BIN)/python -m experiments $(REPRODUCE)

# The site, in build/docs/html: warnings are errors, links and doctests are checked, nothing is fetched.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -d build/docs/doctrees docs build/docs/html
	$(BIN)/sphinx-build -q -W --keep-going -b doctest -d build/docs/doctrees docs build/docs/doctest
	$(BIN)/python docs/check_site.py build/docs/html

# The wheel, installed into an empty environment, runs the demo.
wheel: $(VENV)/.dev
	rm -rf dist build/wheel-check
	$(BIN)/python -m build --wheel --outdir dist . > /dev/null
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/python -m pip --disable-pip-version-check --quiet install "$$(ls dist/*.whl)[cli,report]"
	cd build/wheel-check && bin/kernelsieve demo --out page/index.html

# Everything that is checked before an upload (RELEASING.md): the same bytes twice, what is in them, and that they install.
release-check: $(VENV)/.dev
	rm -rf dist build/again build/release-check
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/python -m build --outdir build/again . > /dev/null
	diff -r dist build/again
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python .ci/check_contents.py dist
	$(BIN)/python tests/public_api.py --check
	$(PYTHON) -m venv build/release-check
	build/release-check/bin/python -m pip --disable-pip-version-check --quiet install "$$(ls dist/*.whl)"
	cd build/release-check && bin/python -c "import kernelsieve; kernelsieve.SparseKernelPCA(2, n_support=5).fit([[i % 7, i % 11] for i in range(80)])"
	build/release-check/bin/python -m pip --disable-pip-version-check --quiet install "$$(ls dist/*.whl)[all]"
	build/release-check/bin/python -m pip --disable-pip-version-check check
	cd build/release-check && bin/kernelsieve demo --out page/index.html

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kernelsieve needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(PIP) install --editable ".[cli,report]"
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(PIP) install --editable ".[dev]"
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	$(PIP) install --editable ".[docs]"
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist demo experiments/output
	rm -rf docs/guide docs/gallery docs/reports docs/reference/generated docs/reference/used docs/.examples-digest
