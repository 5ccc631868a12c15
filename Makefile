# Two commands do everything on a fresh machine with python3:
#   make paper   the paper's experiments: a table, Figure 3 and one of ours, all runs; studies work after it too
#   make test    lint, types and the tests: two to three minutes on two cores
#   make page    the page, with studies to look at: http://127.0.0.1:8000
# Others: make long (long tests and the short calibration, which CI runs too), make docs (the site, in site/),
#   make slow (statistical studies), make bench (ratios of speed), make constraints (update versions),
#   make release-check (wheel and sdist, each installed and used as the README says).

PYTHON ?= python3
BIN := .venv/bin
# pytest keeps the tests that it has rewritten: collecting them again takes half the time
export PYTHONDONTWRITEBYTECODE :=

.PHONY: paper page chromium pictures test long docs slow bench release-check constraints clean
.DELETE_ON_ERROR:

paper: .venv/sim,store.ok
	$(BIN)/roundwise paper

page: .venv/serve,frames.ok
	$(BIN)/roundwise serve --example --open

test: .venv/dev.ok
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m compileall -q src
	$(BIN)/python -W error -m pytest -n auto -m "not slow and not long"

long: .venv/dev.ok chromium
	$(BIN)/python -W error -m pytest -n auto -m "long and not slow"
	$(BIN)/roundwise calibrate

docs: .venv/docs.ok
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -c docs -d site/.doctrees . site
	@echo "The site is in site/index.html."

slow: .venv/dev.ok
	$(BIN)/python -W error -m pytest -n auto -m slow

bench: .venv/dev.ok
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/page_weight.py
	$(BIN)/python benchmarks/hostile.py

# needs nothing but python3: environments of its own, all of them gone afterwards
release-check: .venv/bin/python
	$(BIN)/python tests/release_check.py

# the browser of the tests of the page: installed where that is possible, else it is said what to install
chromium:
	@if [ "$$ROUNDWISE_BROWSER" = skip ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; \
	else echo "The tests of the page need chromium: apt-get install --no-install-recommends chromium (or set" \
		"ROUNDWISE_BROWSER=skip to leave them out)." >&2; exit 1; fi

# the pictures of docs/page.md
pictures: .venv/dev.ok chromium
	$(BIN)/python tests/pictures.py docs/img

# `uv` installs faster; where it cannot be had, pip does the same
.venv/bin/python:
	$(PYTHON) -m venv .venv
	-$(BIN)/pip install --quiet --disable-pip-version-check uv

.venv/%.ok: pyproject.toml constraints.txt | .venv/bin/python
	if [ -x $(BIN)/uv ]; then VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode -c constraints.txt -e '.[$*]'; \
	else $(BIN)/pip install --quiet -c constraints.txt -e '.[$*]'; fi
	$(BIN)/python -m compileall -q src
	touch $@

constraints:
	$(BIN)/uv pip compile --quiet --universal --all-extras --no-header --no-annotate -o constraints.txt --upgrade pyproject.toml

clean:
	rm -rf .venv results site .mypy_cache .ruff_cache .pytest_cache .hypothesis
