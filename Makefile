# Everything that is built, tested or checked here. "make help" lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
# The architectures of the image.
ARCHES ?= amd64 arm64
# Time for each fuzz target.
FUZZTIME ?= 30s
# The nodes of cluster-up.
NODES ?= 2

# What ships and what tests it are compiled alike, as in hack/lib.sh.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS 2>/dev/null)) -trimpath

VERSION ?= $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo unknown)
BUILD := $(GO) build -ldflags "-s -w -X main.version=$(VERSION)"

# The scheduler is a module of its own. Its version has to be one that clients parse, and
# to begin with Kubernetes' own, as that module pins it; ours is what follows the plus.
SCHEDULER := cmd/csi-local-scheduler
SCHEDULER_BIN ?= bin/csi-local-scheduler
KUBE_VERSION = $(shell sed -nE 's|^[[:space:]]*k8s.io/kubernetes (v[0-9.]+)$$|\1|p' $(SCHEDULER)/go.mod)
KUBE_NUMBERS = $(subst ., ,$(KUBE_VERSION:v%=%))
COMMIT = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# The one is for --version and metrics, the other for what the API server's audit log calls us.
SCHEDULER_LDFLAGS = -s -w $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version, \
  -X $(p).gitVersion=$(KUBE_VERSION)+csi-local.$(subst +,.,$(VERSION)) \
  -X $(p).gitMajor=$(word 1,$(KUBE_NUMBERS)) -X $(p).gitMinor=$(word 2,$(KUBE_NUMBERS)) \
  -X $(p).gitCommit=$(COMMIT) -X $(p).gitTreeState=$(if $(filter %-dirty,$(VERSION)),dirty,clean))

.PHONY: help
help: ## list the targets
	@printf 'usage: make TARGET\n\n'
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '%-16s %s\n' "$$t" "$$d"; done

##  Build

.PHONY: build
build: ## build bin/csi-local for this machine
	$(BUILD) -o bin/csi-local ./cmd/csi-local

.PHONY: kubectl-plugin
kubectl-plugin: ## build bin/kubectl-csi_local, for "kubectl csi-local status" and "doctor"
	$(BUILD) -o $(or $(PLUGIN),bin/kubectl-csi_local) ./cmd/csi-local

.PHONY: build-scheduler
build-scheduler: ## build bin/csi-local-scheduler for this machine (minutes, the first time)
	$(GO) -C $(SCHEDULER) build -ldflags "$(SCHEDULER_LDFLAGS)" -o $(abspath $(SCHEDULER_BIN)) .

.PHONY: build-all
build-all: ## build bin/ARCH/csi-local for every architecture of the image
	@for arch in $(ARCHES); do echo "bin/$$arch/csi-local"; GOOS=linux GOARCH=$$arch $(BUILD) -o bin/$$arch/csi-local ./cmd/csi-local || exit 1; done

.PHONY: image
image: ## build the container image with docker or buildah (IMAGE=name, ARCH=arm64)
	@$(MAKE) --no-print-directory build-all ARCHES="$${ARCH:-$$($(GO) env GOARCH)}"
	@hack/image

.PHONY: image-scheduler
image-scheduler: ## build the scheduler's container image (IMAGE=name, ARCH=arm64)
	@GOOS=linux GOARCH=$${ARCH:-$$($(GO) env GOARCH)} $(MAKE) --no-print-directory build-scheduler SCHEDULER_BIN=bin/$${ARCH:-$$($(GO) env GOARCH)}/csi-local-scheduler
	@hack/image csi-local-scheduler

.PHONY: chart
chart: ## render the chart into deploy/manifests, deploy/policy and deploy/scheduler
	@hack/chart

##  Test

.PHONY: test
test: ## the tests on real LVM; installs what they need on Debian and Ubuntu (a quarter of an hour on two cores)
	@hack/test

.PHONY: test-unit
test-unit: ## tests that need nothing but Go
	@hack/test unit

.PHONY: test-race
test-race: ## the same tests with the race detector
	@hack/test race

.PHONY: test-root
test-root: ## tests on real LVM, in a throwaway kernel or on loop devices
	@hack/test root

.PHONY: test-image
test-image: ## build the container image as it ships and look into it
	@hack/test image

.PHONY: test-control-plane
test-control-plane: ## the tests on a real API server and scheduler (10 minutes, and 20 of building before the first)
	@hack/test scheduler control-plane

.PHONY: test-scheduler
test-scheduler: ## vet and test the scheduler binary's module (minutes, the first time)
	@hack/test scheduler

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

.PHONY: demo-cluster
demo-cluster: build ## csi-local in a whole cluster, step by step: ten minutes, and half an hour of building before the first
	@hack/demo-cluster $(if $(KEEP),-keep)

.PHONY: cluster-up
cluster-up: ## a Kubernetes cluster on throwaway kernels, on this machine (NODES=2); half an hour, the first time
	@hack/install-deps kernel image cluster
	@$(GO) build -o bin/cluster ./test/cluster/cmd/cluster
	@bin/cluster up -nodes $(NODES)

.PHONY: cluster-down
cluster-down: ## end what cluster-up has started
	@$(GO) build -o bin/cluster ./test/cluster/cmd/cluster
	@bin/cluster down

.PHONY: bench-lvm
bench-lvm: build ## measure our calls against plain LVM commands in one kernel
	@hack/bench-lvm

.PHONY: bench-capacity
bench-capacity: ## count what 2,000 reporters ask of an API server, and what volumes cause on real LVM
	@hack/bench-capacity

.PHONY: e2e
e2e: ## tests of the whole in a cluster of throwaway kernels, with the manifests as they ship (half an hour of building, the first time)
	@hack/test e2e

.PHONY: bench-cluster
bench-cluster: ## measure pods with volumes in a cluster of one throwaway kernel, and what csi-local weighs; an hour
	@hack/bench-cluster

.PHONY: bench-sched
bench-sched: ## measure the plugin against the in-tree capacity check, and with 500,000 volumes
	BENCH_RESULTS=$(CURDIR)/bench/results $(GO) -C $(SCHEDULER) test -run '^$$' -bench '^Benchmark(Filter|Ledger)$$' -timeout 30m .

.PHONY: sim
sim: ## simulate 10,000 pods with other ways of tracking capacity beside ours; minutes
	@mkdir -p .cache
	$(GO) run ./test/sim/cmd/sim -nodes 100 -pods 10000 -seeds 5 -json .cache/sim.json

.PHONY: storm
storm: ## thousands of pods with volumes on a real scheduler; hours, goes on where it was stopped
	@hack/storm

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache
