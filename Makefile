# Every check that CI runs is `make <name>`, so anybody can run it.

CARGO ?= cargo
PYTHON ?= python3
GOLDEN_ENV := .venv-golden
BENCH_ENV := .venv-bench
LEARNERS_ENV := .venv-learners
OBP_ENV := .venv-obp
CLIENTS_ENV := .venv-clients
CONTRACT_ENV := .venv-contract
DEPLOY_ENV := .venv-deploy
DOCS_ENV := .venv-docs
RELEASE_ENV := .venv-release
PAGE_ENV := .venv-page
POSTGRES_ENV := .venv-postgres
ENGINES_ENV := .venv-engines
PYTHON_ENV := .venv-python
TYPESCRIPT_ENV := .venv-typescript
STORES_ENV := .venv-stores
PYTHON_PACKAGE := crates/surefoot-python
export CARGO_TARGET_DIR ?= target
# Modules are compiled when they are first imported: most never are, and compiling all of them took minutes.
INSTALL := pip install --quiet --disable-pip-version-check --no-compile
TRY_INSTALL := $(INSTALL) --retries 1 --timeout 20

.PHONY: help test test-rust test-contract test-page test-python test-engines wheel environments lint lint-rust lint-python fmt doc bench bench-candidates bench-engines bench-evaluate bench-learners bench-python bench-rivals bench-scale bench-serve soak-serve golden attack fuzz fuzz-quick coverage demo paper clean test-typescript test-deploy client-types docs sdist package archive licences semver reproducible release-check

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

test: test-rust test-contract test-page test-python test-engines test-typescript test-deploy docs ## all tests, of every crate and of the Python package, with the examples in the documentation

test-rust: $(OBP_ENV)/tried $(POSTGRES_ENV)/tried $(STORES_ENV)/tried $(CLIENTS_ENV)/tried ## those of the crates
	$(CARGO) test --workspace --locked

test-contract: $(CONTRACT_ENV)/tried ## the HTTP contract of the service, by schemathesis against its own /openapi.json
	$(CARGO) test --workspace --locked --quiet --no-run
	$(PYTHON) scripts/check-contract --surefoot $(CARGO_TARGET_DIR)/debug/surefoot --schemathesis $(CONTRACT_ENV)/bin/schemathesis

# Without the programs that build the site, the check says that it is skipped.
docs: $(DOCS_ENV)/tried ## the documentation as a site, into target/docs/site; fails if a link leads nowhere
	$(CARGO) test --workspace --locked --quiet --no-run
	if [ -x $(DOCS_ENV)/bin/mkdocs ]; then NO_MKDOCS_2_WARNING=1 \
		$(DOCS_ENV)/bin/python scripts/docs/build.py --surefoot $(CARGO_TARGET_DIR)/debug/surefoot --out $(CARGO_TARGET_DIR)/docs; \
	else echo "SKIPPED: the documentation site, because mkdocs cannot be installed here"; fi

$(DOCS_ENV)/tried: scripts/docs/requirements.txt
	$(PYTHON) -m venv $(DOCS_ENV) \
		&& $(DOCS_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| { echo "mkdocs cannot be installed here"; rm -rf $(DOCS_ENV); mkdir $(DOCS_ENV); }
	touch $@

# Without schemathesis, the check says that it is skipped.
$(CONTRACT_ENV)/tried: scripts/contract-requirements.txt
	$(PYTHON) -m venv $(CONTRACT_ENV) \
		&& $(CONTRACT_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| { echo "schemathesis cannot be installed here"; rm -rf $(CONTRACT_ENV); mkdir $(CONTRACT_ENV); }
	touch $@

# Without Node.js or a browser from its registry, the check says that it is skipped.
test-page: $(PAGE_ENV)/tried ## the page of the service, in a real browser; screenshots go to target/page
	$(CARGO) test --workspace --locked --quiet --no-run
	if [ -d $(PAGE_ENV)/node_modules ]; then cp scripts/page/check.mjs $(PAGE_ENV) && \
		node $(PAGE_ENV)/check.mjs $(CARGO_TARGET_DIR)/debug/surefoot $(CARGO_TARGET_DIR)/page; \
	else echo "SKIPPED: the page in a browser, because Node.js or a browser cannot be had here"; fi

$(PAGE_ENV)/tried: scripts/page/package.json
	rm -rf $(PAGE_ENV) && mkdir $(PAGE_ENV) && cp $< $(PAGE_ENV)
	cd $(PAGE_ENV) && npm install --silent --no-package-lock --no-audit --no-fund --fetch-retries 1 \
		|| { echo "a browser cannot be installed here"; rm -rf node_modules; }
	touch $@

# Without Node.js or its packages, the check says that it is skipped.
test-typescript: $(TYPESCRIPT_ENV)/tried ## the TypeScript client: its types are those of /openapi.json, and its example runs
	$(CARGO) test --workspace --locked --quiet --no-run
	$(PYTHON) scripts/check-typescript --surefoot $(CARGO_TARGET_DIR)/debug/surefoot --modules $(TYPESCRIPT_ENV)/node_modules $(TYPESCRIPT_FLAGS)

client-types: ## write the types of the TypeScript client again, from /openapi.json
	$(MAKE) test-typescript TYPESCRIPT_FLAGS=--write

$(TYPESCRIPT_ENV)/tried: clients/typescript/package.json
	rm -rf $(TYPESCRIPT_ENV) && mkdir $(TYPESCRIPT_ENV) && cp $< $(TYPESCRIPT_ENV)
	cd $(TYPESCRIPT_ENV) && npm install --silent --no-package-lock --no-audit --no-fund --fetch-retries 1 \
		|| { echo "TypeScript cannot be installed here"; rm -rf node_modules; }
	touch $@

# Tools that cannot be installed are named, with what is skipped for it.
test-deploy: $(DEPLOY_ENV)/tried ## the files in deploy/: metrics, alerts, unit, Kubernetes objects, Dockerfile
	$(CARGO) test --workspace --locked --quiet --no-run
	$(DEPLOY_ENV)/bin/python scripts/check-deploy --surefoot $(CARGO_TARGET_DIR)/debug/surefoot

$(DEPLOY_ENV)/tried: scripts/deploy-requirements.txt
	$(PYTHON) -m venv $(DEPLOY_ENV)
	$(DEPLOY_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| echo "the checkers of deploy/ cannot be installed here"
	touch $@

# A real PostgreSQL that needs no root; without it, the tests of several servers say that they are skipped.
$(POSTGRES_ENV)/tried: scripts/postgres-requirements.txt
	$(PYTHON) -m venv $(POSTGRES_ENV) \
		&& $(POSTGRES_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| { echo "PostgreSQL cannot be installed here"; rm -rf $(POSTGRES_ENV); mkdir $(POSTGRES_ENV); }
	touch $@

# A server that speaks the language of S3; without it, the tests of object stores say that they are skipped.
$(STORES_ENV)/tried: scripts/stores-requirements.txt
	$(PYTHON) -m venv $(STORES_ENV) \
		&& $(STORES_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| { echo "an S3 server cannot be installed here"; rm -rf $(STORES_ENV); mkdir $(STORES_ENV); }
	touch $@

# What is tested is the wheel as pip builds and installs it, but for the profile: what the crates' tests have compiled is not
# compiled again. The command line is that of the crates' tests too: alone it would have other features, and be compiled again.
test-python: $(PYTHON_ENV)/installed ## those of the Python package: stubs, doctests, examples and all, against the installed wheel
	MATURIN_PEP517_ARGS="--profile dev --features as-tested" $(PYTHON_ENV)/bin/$(INSTALL) --no-deps --force-reinstall .
	$(PYTHON_ENV)/bin/mypy $(PYTHON_PACKAGE)/python/surefoot
	$(PYTHON_ENV)/bin/python -m mypy.stubtest surefoot._surefoot
	$(CARGO) test --workspace --locked --quiet --no-run
	SUREFOOT=$(CARGO_TARGET_DIR)/debug/surefoot $(PYTHON_ENV)/bin/python -m pytest --quiet --ignore $(PYTHON_PACKAGE)/tests/engines $(PYTHON_PACKAGE)/tests
	$(PYTHON_ENV)/bin/python -m pytest --quiet --doctest-modules --pyargs surefoot

# Without Ray, Spark and Dask from their registry, or Spark without Java, the tests say what is skipped.
test-engines: $(ENGINES_ENV)/tried ## the Python package on real Ray, Spark and Dask: two minutes or so
	if [ -d $(ENGINES_ENV)/bin ]; then \
		MATURIN_PEP517_ARGS="--profile dev --features as-tested" $(ENGINES_ENV)/bin/$(INSTALL) --no-deps --force-reinstall . && \
		$(CARGO) test --workspace --locked --quiet --no-run && \
		SUREFOOT=$(CARGO_TARGET_DIR)/debug/surefoot $(ENGINES_ENV)/bin/python -m pytest --quiet $(PYTHON_PACKAGE)/tests/engines; \
	else echo "SKIPPED: real engines, because Ray, Spark and Dask cannot be had here"; fi

$(ENGINES_ENV)/tried: $(PYTHON_PACKAGE)/tests/engines/requirements.txt
	$(PYTHON) -m venv $(ENGINES_ENV) \
		&& $(ENGINES_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| { echo "Ray, Spark and Dask cannot be installed here"; rm -rf $(ENGINES_ENV); mkdir $(ENGINES_ENV); }
	touch $@

wheel: ## the wheel, for every Python from 3.10 on, into dist/
	$(PYTHON) -m pip wheel --no-deps --wheel-dir dist .

sdist: $(RELEASE_ENV)/installed ## the source archive of the Python package, into dist/
	$(RELEASE_ENV)/bin/maturin sdist --out dist

package: ## the archives of all crates, each compiled from its archive
	$(CARGO) package --workspace --exclude surefoot-python --exclude surefoot-bench --locked

licences: ## the licences of everything in the binary, into target/licences.txt
	$(PYTHON) scripts/licences --package surefoot-cli --out $(CARGO_TARGET_DIR)/licences.txt

archive: licences ## the binary for this machine's kind, as an archive that cargo-binstall can install, into dist/
	$(CARGO) build --release --locked
	$(PYTHON) scripts/archive --binary $(CARGO_TARGET_DIR)/release/surefoot --licences $(CARGO_TARGET_DIR)/licences.txt --out dist

semver: ## the interface of the crates against the last release; needs cargo-semver-checks, and a release
	if [ -z "$$(git tag --list 'v*')" ]; then echo "SKIPPED: there is no release to compare with"; \
	elif ! $(CARGO) semver-checks --version > /dev/null 2>&1; then echo "SKIPPED: cargo install cargo-semver-checks"; exit 1; \
	else $(CARGO) semver-checks --workspace --baseline-rev "$$(git describe --tags --abbrev=0 --match 'v*')"; fi

reproducible: ## two release builds, from two folders: are they the same file?
	scripts/check-reproducible

release-check: package wheel sdist archive semver ## everything that a release needs, but for tests and benchmarks
	$(RELEASE_ENV)/bin/twine check dist/surefoot-[0-9]*

$(RELEASE_ENV)/installed:
	$(PYTHON) -m venv $(RELEASE_ENV)
	$(RELEASE_ENV)/bin/$(INSTALL) 'maturin>=1.9,<2' twine==6.2.0
	touch $@

$(PYTHON_ENV)/installed: $(PYTHON_PACKAGE)/requirements.txt
	$(PYTHON) -m venv $(PYTHON_ENV)
	$(PYTHON_ENV)/bin/$(INSTALL) --requirement $<
	$(PYTHON_ENV)/bin/$(TRY_INSTALL) seaborn==0.13.2 \
		&& $(PYTHON_ENV)/bin/$(INSTALL) --no-deps --ignore-requires-python obp==0.5.7 \
		|| echo "Open Bandit Pipeline cannot be installed here: what is compared with it will be skipped"
	$(PYTHON_ENV)/bin/$(TRY_INSTALL) \
		$$(grep vowpalwabbit bench/learners/requirements.txt) \
		|| echo "Vowpal Wabbit cannot be installed here: what it learns from will be skipped"
	touch $@

# Clients that others have written, which the service is tested with; without them, these tests say that they are skipped.
$(CLIENTS_ENV)/tried: crates/surefoot-cli/tests/clients/requirements.txt
	$(PYTHON) -m venv $(CLIENTS_ENV) \
		&& $(CLIENTS_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		|| { echo "the clients cannot be installed here"; rm -rf $(CLIENTS_ENV); mkdir $(CLIENTS_ENV); }
	touch $@

# Open Bandit Pipeline, whose numbers a test compares with; without it, that test says that it is skipped.
$(OBP_ENV)/tried: crates/surefoot-cli/tests/obp/requirements.txt
	$(PYTHON) -m venv $(OBP_ENV) \
		&& $(OBP_ENV)/bin/$(TRY_INSTALL) --requirement $< \
		&& $(OBP_ENV)/bin/$(TRY_INSTALL) --no-deps --ignore-requires-python obp==0.5.7 \
		|| { echo "Open Bandit Pipeline cannot be installed here"; rm -rf $(OBP_ENV); mkdir $(OBP_ENV); }
	touch $@

environments: $(PYTHON_ENV)/installed $(OBP_ENV)/tried $(CONTRACT_ENV)/tried $(PAGE_ENV)/tried $(POSTGRES_ENV)/tried $(ENGINES_ENV)/tried $(STORES_ENV)/tried $(TYPESCRIPT_ENV)/tried $(DEPLOY_ENV)/tried $(CLIENTS_ENV)/tried $(DOCS_ENV)/tried ## the Python packages that lint and test need

lint: lint-rust lint-python ## formatting and lints, warnings denied, documentation included

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --locked

lint-python: $(PYTHON_ENV)/installed
	$(PYTHON_ENV)/bin/ruff check $(PYTHON_PACKAGE) bench/engines.py bench/candidates bench/learners bench/python examples scripts/docs
	$(PYTHON_ENV)/bin/ruff format --check $(PYTHON_PACKAGE) bench/engines.py bench/candidates bench/learners bench/python examples scripts/docs
	$(PYTHON_ENV)/bin/python scripts/check-dependencies

fmt: $(PYTHON_ENV)/installed ## format the code
	$(CARGO) fmt --all
	$(PYTHON_ENV)/bin/ruff format $(PYTHON_PACKAGE) bench/engines.py bench/candidates bench/learners bench/python examples scripts/docs

bench: ## our own benchmarks: ratios measured side by side, growth, memory and reading, into bench/results/
	$(CARGO) build --release --locked --package surefoot-bench
	for measure in micro growth memory logs; do \
		$(CARGO) run --release --locked --quiet --package surefoot-bench -- $$measure || exit 1; \
	done

bench-python: ## the Python package against the command line, into bench/results/; MNIST=folder for the real digits
	$(CARGO) build --release --workspace --locked --bin surefoot
	$(PYTHON) -m venv $(BENCH_ENV)-python
	$(BENCH_ENV)-python/bin/$(INSTALL) --force-reinstall . scipy
	$(BENCH_ENV)-python/bin/python bench/python/overhead.py $(if $(MNIST),--mnist $(MNIST)) $(BENCH_FLAGS)

bench-engines: $(ENGINES_ENV)/tried ## two Ray workers and two processes against one process, into bench/results/ (BENCH_FLAGS="--records N"): some minutes
	$(ENGINES_ENV)/bin/$(INSTALL) --no-deps --force-reinstall .
	$(ENGINES_ENV)/bin/python bench/engines.py $(BENCH_FLAGS)

bench-rivals: $(BENCH_ENV)/installed ## against PyTorch, into bench/results/; MNIST=folder for the real digits
	$(BENCH_ENV)/bin/python bench/rivals/compare.py $(if $(MNIST),--mnist $(MNIST)) $(BENCH_FLAGS)

bench-evaluate: $(OBP_ENV)/tried ## against Open Bandit Pipeline, on 10 million records, into bench/results/: some minutes, 3 GB
	$(OBP_ENV)/bin/$(INSTALL) pyarrow
	$(CARGO) build --release --locked --package surefoot-bench --package surefoot-cli
	$(CARGO) run --release --locked --quiet --package surefoot-bench -- logs
	$(OBP_ENV)/bin/python bench/rivals/evaluate.py bench/data/logs-10000000.parquet

bench-candidates: $(LEARNERS_ENV)/installed ## candidates with features against Vowpal Wabbit's ADF, into bench/results/: some minutes
	$(CARGO) build --release --locked --package surefoot-bench --package surefoot-cli
	$(LEARNERS_ENV)/bin/python bench/candidates/compare.py --surefoot $(CARGO_TARGET_DIR)/release/surefoot $(BENCH_FLAGS)

bench-serve: $(POSTGRES_ENV)/tried ## the service under load, against axum alone, into bench/results/: ten minutes, 15 GB of disk for a while
	$(CARGO) build --release --locked --package surefoot-bench --package surefoot-cli
	$(CARGO) run --release --locked --quiet --package surefoot-bench -- serve --surefoot $(CARGO_TARGET_DIR)/release/surefoot $(BENCH_FLAGS)

soak-serve: ## the service under load for ten minutes, with its memory, into bench/results/
	$(CARGO) build --release --locked --package surefoot-bench --package surefoot-cli
	$(CARGO) run --release --locked --quiet --package surefoot-bench -- soak --surefoot $(CARGO_TARGET_DIR)/release/surefoot $(BENCH_FLAGS)

bench-scale: $(LEARNERS_ENV)/installed ## passes, encoding and growth; learning from files against memory on 10 million records, and by default settings (BENCH_FLAGS="--records N --default N"): an hour or so, 13 GB of disk
	$(CARGO) build --release --locked --package surefoot-bench --package surefoot-cli
	$(CARGO) run --release --locked --quiet --package surefoot-bench -- scale
	$(LEARNERS_ENV)/bin/python bench/scale.py --surefoot $(CARGO_TARGET_DIR)/release/surefoot $(BENCH_FLAGS)

bench-learners: $(LEARNERS_ENV)/installed ## learners against rivals, on the sets in DATA=data, into bench/results/: hours at first, minutes with BENCH_FLAGS="--sets digits"
	$(CARGO) build --release --locked
	$(LEARNERS_ENV)/bin/python bench/learners/compare.py --data $(DATA) --surefoot $(CARGO_TARGET_DIR)/release/surefoot $(BENCH_FLAGS)

$(LEARNERS_ENV)/installed: bench/learners/requirements.txt
	$(PYTHON) -m venv $(LEARNERS_ENV)
	$(LEARNERS_ENV)/bin/$(INSTALL) --requirement $<
	$(LEARNERS_ENV)/bin/$(INSTALL) --no-deps --ignore-requires-python obp==0.5.7
	touch $@

$(BENCH_ENV)/installed: bench/rivals/requirements.txt
	$(PYTHON) -m venv $(BENCH_ENV)
	$(BENCH_ENV)/bin/$(INSTALL) --requirement bench/rivals/requirements.txt
	touch $@

demo: ## the main job, on the digits that ship with the repo
	$(CARGO) run --release --locked -- demo

ATTACKS ?= 20000
attack: ## forged runs, damaged files, failing disks, logs that contradict themselves, for a few minutes; prints counts
	SUREFOOT_MUTATIONS=$(ATTACKS) PROPTEST_CASES=1024 $(CARGO) test --workspace --locked --no-fail-fast -- \
		ledger forger mutat damaged limits refut actions:: matrix streams verify:: symmetric table_ saved:: files:: \
		| grep --line-buffered -E '^test .*(ok|FAILED)$$|panicked|mutations' | tee $(CARGO_TARGET_DIR)/attack.log
	@echo "$$(grep -c ' ok$$' $(CARGO_TARGET_DIR)/attack.log) attacks held off, $$(grep -c 'FAILED$$' $(CARGO_TARGET_DIR)/attack.log) not"
	@! grep -q 'FAILED$$' $(CARGO_TARGET_DIR)/attack.log

MUTATIONS ?= 30000
fuzz-quick: ## damaged policies, certificates, ledgers, sessions, data and settings, on stable Rust: a minute or so
	SUREFOOT_MUTATIONS=$(MUTATIONS) $(CARGO) test --workspace --locked --test mutations --test settings -- --nocapture

FUZZ_SECONDS ?= 60
FUZZ_CORPUS := fuzz/corpus/tables
# These are thin: `make fuzz-quick` tries the same readers on stable Rust, and CI has no nightly compiler to build them.
FUZZ_TARGETS := policies certificates ledgers rounds npz idx settings
# The first byte of a seed is the number of its format, in the order of the folders.
fuzz: ## the readers of all files on made-up ones, FUZZ_SECONDS=60 for each; needs nightly and cargo-fuzz
	mkdir -p $(FUZZ_CORPUS)
	number=0; for folder in crates/surefoot-data/tests/files/*/; do \
		for file in $$(ls $$folder*.* | grep -v '\.error$$'); do \
			{ printf "\\$$(printf %03o $$number)"; cat $$file; } > $(FUZZ_CORPUS)/seed-$$(basename $$folder)-$$(basename $$file) || exit 1; \
		done; \
		number=$$((number + 1)); \
	done
	$(CARGO) +nightly fuzz run --sanitizer none tables $(FUZZ_CORPUS) -- -max_total_time=$(FUZZ_SECONDS) -max_len=4096
	for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target; \
		$(CARGO) +nightly fuzz run --sanitizer none $$target fuzz/corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=4096 || exit 1; \
	done

DATA ?= data
paper: ## the paper's tables and figures, from the sets in DATA=data, into paper/results/: an hour or so
	$(CARGO) run --release --locked -- paper all --data $(DATA)

COVERAGE := study coverage --runs 2000 --delta 0.05 --seed 1
coverage: ## how often certificates hold, in 2,000 runs, into docs/coverage.md: some minutes
	$(CARGO) build --release --locked
	{ printf '%s\n' '# How often certificates hold' '' \
		'Written by `make coverage`. What is run, and what the columns are: [theory.md](theory.md#how-often-certificates-hold).' \
		'' '```console' '$$ surefoot $(COVERAGE)' && \
	$(CARGO) run --release --locked --quiet -- $(COVERAGE) && echo '```'; } > docs/coverage.md.tmp
	mv docs/coverage.md.tmp docs/coverage.md

golden: $(GOLDEN_ENV)/installed ## write the golden values again, from the slow reference in reference/
	$(GOLDEN_ENV)/bin/python reference/golden.py

$(GOLDEN_ENV)/installed: reference/requirements.txt
	$(PYTHON) -m venv $(GOLDEN_ENV)
	$(GOLDEN_ENV)/bin/$(INSTALL) --requirement reference/requirements.txt
	touch $@

clean: ## remove what was built
	$(CARGO) clean
	rm -rf $(GOLDEN_ENV) $(BENCH_ENV) $(BENCH_ENV)-python $(LEARNERS_ENV) $(OBP_ENV) $(CONTRACT_ENV) $(POSTGRES_ENV) $(ENGINES_ENV) $(PYTHON_ENV) bench/data dist $(DEPLOY_ENV) $(TYPESCRIPT_ENV) $(CLIENTS_ENV) $(PAGE_ENV) $(DOCS_ENV)
