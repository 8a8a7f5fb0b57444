# The short names for everything one does here; `make help` lists them. The work is done by CMake and scripts/.

.DEFAULT_GOAL := build
.PHONY: build demo test bench fuzz format lint dist clean help
.NOTPARALLEL:

# Seconds per fuzz target, for `make fuzz`.
SECONDS := 60

build: ## compile everything into build/ (packages missing? make demo installs them)
	scripts/build release

demo: ## install what is missing, build, and draw apple.png from "a red apple"
	scripts/install-dependencies build
	scripts/build release programs
	build/dif generate "a red apple" -o apple.png

test: ## everything that needs no GPU: the release build's tests and the sanitizer build's
	scripts/install-dependencies build test opencl
	scripts/test

# BENCH_PYTHON=venv/bin/python adds diffusers; RECORD=1 writes perf/results and docs/performance.
bench: ## time pictures and kernels on this machine
	scripts/install-dependencies build opencl
	scripts/bench

fuzz: ## feed the readers damaged files, SECONDS=60 for each target
	scripts/install-dependencies build test
	scripts/fuzz $(SECONDS)

format: ## rewrite the C++ files as .clang-format says
	scripts/install-dependencies test
	scripts/check-format --fix

lint: ## format, names, layers and hygiene of the tracked files
	scripts/install-dependencies test
	scripts/check-layers
	scripts/check-format
	scripts/check-hygiene

dist: ## pack the relocatable bundles into dist/ and try them
	scripts/install-dependencies build test
	scripts/dist

clean: ## remove what was built
	rm -rf build build-sanitize dist apple.png

help: ## this list
	@sed -n 's/^\([a-z]*\): ## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done
