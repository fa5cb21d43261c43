# GNU make 3.81 (macOS) must do. Everything is installed into .venv by pip; nothing is global.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
CPP := $(wildcard cpp/*.cpp cpp/*.hpp)

DEPS := $(VENV)/.deps
BUILD := $(VENV)/.build
HERE := $(VENV)/.here
LINT := $(VENV)/.lint
DOCS := $(VENV)/.docs
BENCH := $(VENV)/.bench
SANITIZE := build/sanitize

# Arguments for pytest: make test ARGS="-k certificate"
ARGS :=
WORKERS := -n auto --maxprocesses 8 --dist worksteal

# An active virtual environment or a user's pip settings must not leak in.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX

.PHONY: help venv build demo test slow lint format bench-small bench bench-growth bench-search \
  bench-machines bench-probabilities docs sanitize clean FORCE
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'
	@echo "PYTHON=/path/to/python chooses the interpreter when .venv is made, CXX= the compiler."

venv: $(DEPS) ## create .venv with all build and test requirements

build: $(BUILD) ## compile and install maxmargin into .venv, editable; rebuilds what changed

demo: $(BUILD) ## train on three data sets, with certificates; writes a picture
	$(PY) examples/demo.py

test: $(BUILD) ## run the tests and doctests, without the slow ones
	$(PY) -m pytest $(WORKERS) $(ARGS)

slow: $(BUILD) ## run the tests marked slow
	$(PY) -m pytest -m slow $(WORKERS) $(ARGS)

lint: $(BUILD) $(LINT) ## ruff, mypy --strict, clang-format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict src tests/typed_user.py
	$(VENV)/bin/clang-format --dry-run --Werror $(CPP)

format: $(LINT) ## let ruff and clang-format lay out the code
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .
	$(VENV)/bin/clang-format -i $(CPP)

bench-small: $(BUILD) ## measure the promises that are made in seconds
	$(PY) benchmarks/small.py

bench: $(BUILD) $(BENCH) ## all peers side by side; QUICK=1 TOL= CACHE= ONLY= PEERS= REPEATS= THREADS=
	$(PY) benchmarks/bench.py

bench-growth: $(BUILD) $(BENCH) ## time and memory at growing n
	$(PY) benchmarks/growth.py

bench-machines: $(BUILD) ## kernel ridge, PCA, logistic regression and probabilities; ONLY=
	$(PY) benchmarks/machines.py

bench-probabilities: $(BUILD) ## cross-validated log-loss of tuned machines; ONLY=
	$(PY) benchmarks/probabilities.py

bench-search: $(BUILD) ## a search over C and gamma beside GridSearchCV over scikit-learn's SVC
	$(PY) benchmarks/search.py

docs: $(BUILD) $(DOCS) ## build the documentation, running every example; check its links
	@sh tools/mathjax.sh $(PY)
	@rm -rf docs/_build docs/reference/generated
	$(PY) -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	$(PY) tools/check_site.py docs/_build/html
	@echo "open docs/_build/html/index.html"

clean: ## remove .venv, build directories and caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/maxmargin/_core.pyi
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- set-up, each step stamped inside .venv -----------------------------------------------------

# A dangling link (the interpreter behind .venv is gone) counts as missing, so it is made again.
$(PY):
	@python=$$(sh tools/preflight.sh) && echo "creating $(VENV) with $$python" && \
	"$$python" -m venv --clear $(VENV)

# Requirements are read from pyproject.toml, not installed through `.[test]`, because
# --no-build-isolation would reach those of them that must be compiled as well.
requirements = "import tomllib; t = tomllib.load(open('pyproject.toml', 'rb')); p = t['project']; \
	x = p['optional-dependencies']; print(*(t['build-system']['requires'] + p['dependencies'] + x['test']), sep='\n')"
extra_requirements = "import sys, tomllib; t = tomllib.load(open('pyproject.toml', 'rb')); \
	print(*t['project']['optional-dependencies'][sys.argv[1]], sep='\n')"

$(DEPS): pyproject.toml | $(PY)
	@echo "installing build and test requirements into $(VENV) (a minute or two)"
	@$(PY) -c $(requirements) > $@.txt
	$(PIP) install --quiet -r $@.txt
	@touch $@

$(LINT): pyproject.toml | $(PY)
	@$(PY) -c $(extra_requirements) lint > $@.txt
	$(PIP) install --quiet -r $@.txt
	@touch $@

$(BENCH): pyproject.toml | $(PY)
	@$(PY) -c $(extra_requirements) bench > $@.txt
	$(PIP) install --quiet -r $@.txt
	@touch $@

$(DOCS): pyproject.toml | $(PY)
	@$(PY) -c $(extra_requirements) docs > $@.txt
	$(PIP) install --quiet -r $@.txt
	@touch $@

# An editable install points at one directory and knows its modules. If this tree was copied or moved
# with its .venv, or a module came or went, the file changes and the install is made again.
$(HERE): FORCE | $(PY)
	@{ echo "$(CURDIR)"; find src -name '*.py' | sort; } > $@.new; \
	cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Always --no-build-isolation: the build directory in pyproject.toml knows one environment only.
# Quiet when all is well; shows the compiler's warnings, and everything if it fails. The stamp
# carries the time of the start, so that a file saved during the build is built next time.
$(BUILD): $(DEPS) $(HERE) CMakeLists.txt $(CPP)
	@echo "building maxmargin (a minute; log: $@.log)"
	@touch $@.start
	@$(PIP) install --verbose --no-build-isolation --no-deps --editable . > $@.log 2>&1 || { cat $@.log; exit 1; }
	@grep -A 4 "warning:" $@.log || true
	@mv $@.start $@

# ---- sanitizers (g++ on Linux) --------------------------------------------------------------------

# An environment of its own that borrows the packages of .venv: their directory is on its path, but
# the .pth file that makes the editable install is not read from there.
$(SANITIZE)/bin/python: | $(PY)
	$(PY) -m venv --without-pip $(SANITIZE)
	$(PY) -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	  > $$($@ -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrowed.pth

# detect_leaks=0: the interpreter itself does not free everything. libstdc++ is preloaded so that
# the sanitizer finds __cxa_throw. --capture=sys leaves its report, written just before it aborts,
# on the terminal.
sanitize: $(BUILD) $(SANITIZE)/bin/python ## run the tests under AddressSanitizer and UBSan
	$(PY) -m pip --python $(SANITIZE)/bin/python install --quiet --no-build-isolation --no-deps \
	  --config-settings=build-dir=$(SANITIZE)/cmake \
	  --config-settings=cmake.build-type=RelWithDebInfo \
	  --config-settings=cmake.define.MAXMARGIN_SANITIZE=ON .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(SANITIZE)/bin/python -m pytest --capture=sys $(if $(ARGS),$(ARGS),tests)
