# Everything that is built, tested or checked here. "make help" lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
# The architectures of the image.
ARCHES ?= amd64 arm64
# Time for each fuzz target.
FUZZTIME ?= 30s

VERSION ?= $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo unknown)
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help
help: ## list the targets
	@printf 'usage: make TARGET\n\n'
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '%-16s %s\n' "$$t" "$$d"; done

##  Build

.PHONY: build
build: ## build bin/csi-local for this machine
	$(BUILD) -o bin/csi-local ./cmd/csi-local

.PHONY: build-all
build-all: ## build bin/ARCH/csi-local for every architecture of the image
	@for arch in $(ARCHES); do echo "bin/$$arch/csi-local"; GOOS=linux GOARCH=$$arch $(BUILD) -o bin/$$arch/csi-local ./cmd/csi-local || exit 1; done

.PHONY: image
image: ## build the container image with docker or buildah (IMAGE=name, ARCH=arm64)
	@$(MAKE) --no-print-directory build-all ARCHES="$${ARCH:-$$($(GO) env GOARCH)}"
	@hack/image

##  Test

.PHONY: test
test: ## all tests; installs what they need on Debian and Ubuntu (at most 20 minutes on two cores)
	@hack/test

.PHONY: test-unit
test-unit: ## tests that need nothing but Go, with the race detector
	@hack/test unit

.PHONY: test-root
test-root: ## tests on real LVM, in a throwaway kernel or on loop devices
	@hack/test root

.PHONY: test-image
test-image: ## build the container image as it ships and look into it
	@hack/test image

.PHONY: sanity
sanity: build ## run the stock csi-sanity command against a running driver on real LVM
	@hack/sanity

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME each
	@FUZZTIME=$(FUZZTIME) hack/fuzz

##  Check

.PHONY: verify
verify: ## format, vet, lint, import arrows, go.mod, vulnerabilities, scripts
	@hack/verify

##  Show

.PHONY: demo
demo: build ## the life of real volumes, step by step
	@hack/demo

.PHONY: bench-lvm
bench-lvm: build ## measure our calls against plain LVM commands in one kernel
	@hack/bench-lvm

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache
