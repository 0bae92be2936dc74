# What a person does with Selvedge. Every target installs what it needs (tools/install.sh) and says so.
.DEFAULT_GOAL := help
.PHONY: help demo build test test-rust test-ml test-blackbox test-vm bench lint fmt fuzz dist clean

SHELL := /bin/bash
# Wherever a person has cargo build: programs are looked for here.
export CARGO_TARGET_DIR := $(CURDIR)/target
FAST := target/fast/selvedge
RELEASE := target/release/selvedge
PYTHON := target/venv/bin/python
FUZZ_SECONDS ?= 60
# Real readings either way: of an office where the data set is there, else of this machine.
READINGS ?= $(firstword $(wildcard ../shared/data/occupancy/datatest.txt) machine)

help: ## show this help
	@echo 'Selvedge: edge gateway, cloud end and measuring instrument in one program.'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo 'First time here? make demo. It needs Rust 1.95 and, on Debian or Ubuntu, installs the rest itself.'

demo: build ## build, show a cloud, an edge and devices at work, measure them beside Mosquitto, write a report
	@tools/install.sh system
	@tools/demo.sh $(FAST) target/demo/up
	$(FAST) evaluate rtt --preset demo-models --replay $(READINGS) --out target/demo

build: ## build the program fast: target/fast/selvedge
	@tools/install.sh rust
	cargo build --profile fast -p selvedge

test: test-rust test-ml test-blackbox ## all tests: of the crates and of the models, then of the program with clients that others wrote

test-rust: ## tests of the crates
	@tools/install.sh rust system
	@python3 tests/crates.py

test-ml: ## types and tests of what models learn from
	@tools/install.sh ml
	cd ml && $(CURDIR)/target/ml/bin/mypy && $(CURDIR)/target/ml/bin/pytest

test-blackbox: build ## tests of the running program; BROKER=mosquitto checks the tests themselves
	@tools/install.sh system python node ml
	cargo build --quiet --profile fast -p rumqttc-echo
	@tools/apps.sh test
	$(PYTHON) -m pytest tests/blackbox -q -n $$((2 * $$(nproc) + 1)) --dist loadfile

test-vm: build ## tests on a machine of its own, emulated: cgroups of version 2, systemd, restarts, power cuts (long, as root)
	@tools/install.sh system python vm
	@tools/vm.sh $(FAST)

bench: ## the promised figures, measured here beside Mosquitto, as ratios with intervals
	@tools/install.sh rust system
	cargo build --release -p selvedge
	$(RELEASE) evaluate promises --out target/bench

lint: ## formatting, lints, licences and advisories, as CI has them
	@tools/install.sh lints python shellcheck deny
	@tools/lint.sh

fmt: ## put all sources into their form
	@tools/install.sh python
	cargo fmt --all
	cargo fmt --manifest-path apps/anomaly/Cargo.toml
	target/venv/bin/ruff format tests ml

fuzz: ## throw random and mutated bytes at every decoder for FUZZ_SECONDS (60) each
	@tools/install.sh fuzz
	@tools/fuzz.sh $(FUZZ_SECONDS)

dist: ## one static x86_64 binary: target/dist/selvedge
	@tools/install.sh rust
	@tools/dist.sh

clean: ## remove everything that was built or installed here
	cargo clean
