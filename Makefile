# Homeostat. `make` lists the targets; those of the laboratory are in internal/proof/lab.mk.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
# The modules of the workspace, as patterns of packages: all, and without the laboratory, which nobody imports or deploys.
MODULES := $(addsuffix /...,$(shell sed -n 's/^\t\(\..*\)/\1/p' go.work))
SHIPPED := $(filter-out ./internal/proof/%,$(MODULES))
# The modules whose versions conflict with those of the others.
APART := $(filter-out $(patsubst ./%/...,%,$(MODULES)) .,$(patsubst %/go.mod,%,$(shell git ls-files '*/go.mod')))

# No debugger looks at what is built here: compiling and linking without what one needs takes a tenth less. Without the
# paths of their folder, packages are compiled once for all clones and work trees of a machine.
export GOFLAGS := $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false
# Compilers collect garbage only when they have a gibibyte of it, which takes an eighth less.
COMPILE = -ldflags=-s -toolexec='env GOGC=off GOMEMLIMIT=1GiB'
TEST = go test -vet=off $(COMPILE)
# Tools are built from the Go module proxy, once, in versions of their own.
TOOL = GOWORK=off go tool -modfile=$(CURDIR)/internal/proof/tools/go.mod
GO_FILES = $(shell git ls-files --cached --others --exclude-standard '*.go')
# The folders of all modules in which a test file has a line.
tested = $(sort $(shell grep -rlE --include='*_test.go' '$(1)' . | xargs -rn1 dirname | grep -v -e /proof/bench -e /proof/site))

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile internal/proof/lab.mk

.PHONY: test
test: ## Unit tests of everything that users import or deploy: minutes.
	$(TEST) -timeout 10m $(SHIPPED)

.PHONY: check
check: lint platforms test race laboratory exact mutate e2e ## Everything that must be green: linters, race detector, allocations, mutants, the real API server.

.PHONY: demo
demo: ## Roll reboots across 12 nodes of a simulated API server, killing processes on the way.
	go run $(COMPILE) ./examples/reboot/demo

.PHONY: demo-real
demo-real: export KUBERNETES := $(or $(KUBERNETES),1.37)
demo-real: controlplane-build ## The same on a real API server.
	go run $(COMPILE) ./examples/reboot/demo --real

.PHONY: race
# Without this, the race detector sleeps for a second at the end of each test program.
race: export GORACE := atexit_sleep_ms=0
race: ## Unit tests of what users import or deploy under the race detector; part of make check.
	@# backwards, since the longest come last; the tests of the root, which are about documents, and of the scaffold start no
	@# goroutine; those of the laboratory explore programs by a kit that is raced itself
	$(TEST) -race -timeout 15m $$(go list $(SHIPPED) | grep -v -e /examples/anyprogram -e /operator/new -e '/homeostat$$' | tac)

.PHONY: laboratory
laboratory: ## Unit tests of the laboratory, and random worlds for longer; part of make check.
	$(TEST) -timeout 15m $$(go list $(filter ./internal/proof/%,$(MODULES)) | grep -v /proof/bench)
	@# the random worlds of make test, for longer
	$(TEST) -timeout 10m -run '^Test(ShardsKeep|RangesOfFleetsKeep)' ./leader/shard -steps 1000000
	$(TEST) -timeout 10m -run '^Test(Model|TheWholeOperator)' ./examples/reboot/internal/model -steps 100000 -worlds 5

.PHONY: exact
exact: ## What is counted beside other libraries: sizes, own writes, claims of the documents; part of make check.
	@# all tests of the benchmarks, except for the simulation of fleets, which measures
	$(TEST) -timeout 30m $(filter-out %/scale,$(sort $(shell grep -rlE --include='*_test.go' '^func Test' internal/proof/bench \
	  | xargs -n1 dirname | sed 's|^|./|')))

# How many mutants of each package are tried (MUTANTS=100 for the full score); fewer killed, in percent, are an error.
MUTANTS = 4
MUTANTS_KILLED = 60
MUTATED = ./queue ./reconcile ./names ./leader ./patch ./informer ./informer/internal/references \
  ./informer/internal/itemwise ./internal/diff ./internal/intern
.PHONY: mutate
mutate: ## Take each safeguard out, and change the library here and there: tests must see it (MUTANTS=6); part of make check.
	$(TEST) -tags mutate -run '^TestMutant' -timeout 20m $(call tested,^//go:build mutate)
	go run ./internal/proof/mutate -n $(MUTANTS) -min $(MUTANTS_KILLED) $(MUTATED)

# The packages whose e2e tests take longest come first, and several at a time: most of it is waiting.
E2E_FIRST = ./reconcile/reconciletest/live ./examples/configmap-from-crs/internal/settings \
  ./examples/ingress-per-service/internal/ingress ./examples/namespace-defaults/internal/defaults ./leader \
  ./examples ./examples/observe/internal/trial ./examples/reboot/demo/internal/roll \
  ./examples/ingress-per-service ./internal/test/e2e ./internal/proof/zoo ./examples/reboot/internal/trial
.PHONY: e2e
e2e: controlplane-build ## Tests against the real API server (KUBERNETES=1.35 for another version); part of make check.
	cd internal/proof/controlplane && GOWORK=off CGO_ENABLED=0 go test -vet=off -timeout 5m ./supervisor
	$(TEST) -tags e2e -run '^TestE2E' -p 5 -timeout 20m $(E2E_FIRST) \
	  $(filter-out $(E2E_FIRST),$(call tested,^//go:build e2e)) ./internal/proof/site

.PHONY: lint
lint: shellcheck ## Linters, formats, dead code, documents, modules, generated files; part of make check.
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	@unformatted="$$($(TOOL) gofumpt -l $(GO_FILES))"; \
	  if [ -n "$$unformatted" ]; then echo "run make fmt; not formatted:"; echo "$$unformatted"; exit 1; fi
	@for module in $(MODULES) ./internal/ship/...; do echo "linting $$module"; \
	  (cd $${module%/...} && $(TOOL) golangci-lint run --build-tags e2e,mutate ./...); done
	@for module in $(MODULES); do echo "go mod tidy $$module"; (cd $${module%/...} && GOWORK=off go mod tidy -diff); done
	@for module in $(APART); do echo "go mod tidy $$module"; cd $(CURDIR)/$$module; \
	  for m in *.mod; do GOWORK=off go mod tidy -e -diff -modfile $$m; done; done
	@# exported functions are for users; those of internal/proof/published are for modules of their own
	@unreachable="$$("$$($(TOOL) -n deadcode)" -test -tags e2e,mutate $(MODULES))"; \
	  dead="$$(grep -E '^[^:]*(internal|examples)/|[ .][a-z][A-Za-z0-9]*$$' <<<"$$unreachable" \
	    | grep -v '^internal/proof/published/' || true)"; if [ -n "$$dead" ]; then echo "nothing calls"; echo "$$dead"; exit 1; fi
	@fresh="$$(mktemp -d)"; trap 'rm -r "$$fresh"' EXIT; cd examples; \
	  $(TOOL) controller-gen object crd paths=./website/api/... output:object:dir="$$fresh" output:crd:stdout \
	    | diff - website/deploy/crd.yaml && diff "$$fresh" website/api/v1 --exclude website.go \
	    || { echo "the types of examples/website have changed: run make generate"; exit 1; }
	cd internal/proof && go run ./bench/report check ../../docs/benchmarks/results.txt ../../docs/benchmarks
	go run ./internal/proof/published/page check docs/proof/results.jsonl docs/proof.md
	cd internal/ship && GOWORK=off go test -short .

.PHONY: platforms
platforms: ## go vet for other operating systems, for which it compiles every dependency again; part of make check.
	GOOS=darwin GOARCH=arm64 go vet $(SHIPPED)
	GOOS=windows GOARCH=amd64 go vet $(SHIPPED)

.PHONY: shellcheck
shellcheck:
	@if command -v shellcheck >/dev/null; then shellcheck examples/observe/scripts/*/*.sh; \
	  else echo "skipped: shellcheck is not installed"; [ -z "$${CI:-}" ]; fi

.PHONY: promtool
promtool: ## Install promtool, for the tests of the alerting rules: Debian's package prometheus (as root).
	@command -v promtool >/dev/null || { apt-get update -qq && apt-get install --yes -qq prometheus; }

.PHONY: bench
bench: ## Benchmarks beside controller-runtime and client-go (BENCH=regexp, COUNT=10).
	@mkdir -p $(BIN)
	cd internal/proof/bench && go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),10) -timeout 3h ./... | tee $(BIN)/bench.txt
	$(TOOL) benchstat -col /impl $(BIN)/bench.txt

.PHONY: fmt
fmt: ## Format every Go file.
	$(TOOL) gofumpt -w $(GO_FILES)

.PHONY: generate
generate: ## Write what is made from something else: examples/website's copies and CRD, and the documents' snippets.
	cd examples && $(TOOL) controller-gen object crd paths=./website/api/... output:crd:stdout > website/deploy/crd.yaml.new \
	  && mv website/deploy/crd.yaml.new website/deploy/crd.yaml
	go test -vet=off . -run '^TestRewriteSnippets$$' -rewrite
	go test -vet=off .

.PHONY: controlplane
controlplane: ## Run etcd, kube-apiserver and kube-controller-manager in the foreground (KUBERNETES=1.35).
	@"$$(go run ./internal/test/e2e/build)"

.PHONY: controlplane-build
controlplane-build:
	go run ./internal/test/e2e/build

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BIN) dist cover.out

include internal/proof/lab.mk
