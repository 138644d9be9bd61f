# Homeostat. `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
KUBERNETES_VERSION := v1.36.3
GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION := v0.12.0
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
APIDIFF_VERSION := v0.0.0-20261014143641-f0251eb4aa3e
DEADCODE_VERSION := v0.52.0
GOVULNCHECK_VERSION := v1.8.0
ACTIONLINT_VERSION := v1.7.12
CONTROLLER_GEN_VERSION := v0.23.0

GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOFUMPT := $(BIN)/gofumpt-$(GOFUMPT_VERSION)
BENCHSTAT := $(BIN)/benchstat-$(BENCHSTAT_VERSION)
APIDIFF := $(BIN)/apidiff-$(APIDIFF_VERSION)
DEADCODE := $(BIN)/deadcode-$(DEADCODE_VERSION)
GOVULNCHECK := $(BIN)/govulncheck-$(GOVULNCHECK_VERSION)
ACTIONLINT := $(BIN)/actionlint-$(ACTIONLINT_VERSION)
CONTROLLER_GEN := $(BIN)/controller-gen-$(CONTROLLER_GEN_VERSION)

# The packages of this module that have tests against the real API server.
# Those that take longest come first, and several at a time: most of it is waiting.
E2E_LONGEST = ./reconcile/reconciletest/live ./examples/configmap-from-crs/internal/settings \
  ./examples/ingress-per-service/internal/ingress ./examples/namespace-defaults/internal/defaults ./leader \
  ./examples ./examples/observe/internal/trial ./examples/reboot/demo/internal/roll \
  ./examples/ingress-per-service ./internal/proof/e2e ./internal/proof/zoo ./examples/reboot/internal/trial
E2E_PACKAGES = $(E2E_LONGEST) $(filter-out $(E2E_LONGEST),$(sort $(shell grep -rl --include='*_test.go' --exclude-dir=bench --exclude-dir=site \
  '^//go:build e2e' . | xargs -rn1 dirname)))
# The packages that have mutation tests: a safeguard is taken out, a named invariant must break.
MUTATE_PACKAGES = $(sort $(shell grep -rl --include='*_test.go' '^//go:build mutate' . | xargs -rn1 dirname))
# The packages whose mutants the tests have to kill, and how many of each are tried (MUTANTS=100 for the full score).
MUTATED_PACKAGES = ./queue ./reconcile ./names ./leader ./patch ./informer ./internal/diff ./internal/intern
MUTANTS = 4
# Fewer killed, in percent of all those tried, are an error.
MUTANTS_KILLED = 60
# The packages of this module whose tests count allocations, or take more steps without the race detector.
# That of leader takes long, and one core.
EXACT_PACKAGES = ./leader $(filter-out ./leader,$(sort $(shell grep -rlE --include='*_test.go' \
  'AllocsPerRun|^//go:build !race' . | xargs -rn1 dirname)))
# No debugger looks at these test programs, and linking them without what it needs takes a fifth less.
LINK = -ldflags=-w
# Compilers collect garbage only when they have a gibibyte of it, which takes an eighth less. Tests run with the
# collector as users have it.
COMPILE = -toolexec='env GOGC=off GOMEMLIMIT=1GiB'
TEST = go test -vet=off $(LINK) $(COMPILE)
GO_FILES = $(shell git ls-files --cached --others --exclude-standard '*.go')

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Roll reboots across 12 nodes of a simulated API server, killing processes on the way.
	go run $(LINK) $(COMPILE) ./examples/reboot/demo

.PHONY: demo-real
demo-real: controlplane-build ## The same on a real API server.
	go run $(LINK) $(COMPILE) ./examples/reboot/demo --real

.PHONY: test
test: race exact mutate e2e ## Everything that must be green: unit tests under the race detector, mutation and real API server tests.

.PHONY: unit
unit: ## Unit tests without the race detector, which is quicker.
	go test -timeout 10m ./...

.PHONY: race
race: ## Unit tests under the race detector.
	@# backwards, since the longest come last
	$(TEST) -race -timeout 15m $$(go list ./... | tac)
	cd examples/tracing && $(TEST) -race -timeout 5m ./...
	cd examples/interop && $(TEST) -race -timeout 5m ./...
	cd examples/anyprogram && $(TEST) -timeout 5m ./...
	cd reconcile/reconciletest/crd && $(TEST) -race -timeout 5m ./...

.PHONY: exact
exact: ## Unit tests without it where that matters: allocations are counted, more steps taken.
	@# the race detector takes nothing from explorations, which have had their time
	$(TEST) -timeout 10m -skip '^TestExplore' $(EXACT_PACKAGES)
	cd internal/proof/bench && $(TEST) -timeout 10m ./size ./ownwrites ./guide ./report

.PHONY: mutate
mutate: ## Take each safeguard out, and change the library here and there: tests must see it (MUTANTS=6).
	$(TEST) -tags mutate -run '^TestMutant' -timeout 20m $(MUTATE_PACKAGES)
	go run ./internal/proof/mutate -n $(MUTANTS) -min $(MUTANTS_KILLED) $(MUTATED_PACKAGES)

.PHONY: e2e
e2e: controlplane-build browser ## Tests against the real API server.
	cd internal/proof/controlplane && CGO_ENABLED=0 go test -vet=off -timeout 5m ./supervisor
	$(TEST) -tags e2e -run '^TestE2E' -p 5 -timeout 20m $(E2E_PACKAGES)
	cd internal/proof/site && $(TEST) -tags e2e -run '^TestE2E' -timeout 5m .

.PHONY: browser
browser:
	@# Ubuntu has chromium as a snap alone, which does not see /tmp
	@command -v google-chrome >/dev/null || { found="$$(command -v chromium || command -v chromium-browser)" && \
	  case "$$(readlink -f "$$found")" in *snap*) false;; esac; } || { \
	  echo "installing a browser, which looks at the status page and at the site in tests"; export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && { apt-get install -y -qq chromium >/dev/null || { into="$$(mktemp -d)" && chmod 755 "$$into" && \
	    curl -sSfLo "$$into/chrome.deb" "https://dl.google.com/linux/direct/google-chrome-stable_current_$$(dpkg --print-architecture).deb" && \
	    apt-get install -y -qq "$$into/chrome.deb" >/dev/null; }; }; }

.PHONY: controlplane
controlplane: controlplane-build ## Run etcd, kube-apiserver and kube-controller-manager in the foreground.
	$(BIN)/controlplane

.PHONY: controlplane-build
controlplane-build: ## Build bin/controlplane (5 to 6 minutes the first time).
	go run ./internal/proof/e2e/build

.PHONY: fmt
fmt: $(GOFUMPT) ## Format every Go file.
	$(GOFUMPT) -w $(GO_FILES)

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Write what examples/website generates from its types: copy functions and the CRD.
	$(CONTROLLER_GEN) object crd paths=./examples/website/api/... output:crd:stdout > examples/website/deploy/crd.yaml

.PHONY: lint
lint: $(GOLANGCI_LINT) $(ACTIONLINT) shellcheck ## Run the linters.
	$(ACTIONLINT)
	$(GOLANGCI_LINT) run --build-tags e2e,mutate ./...
	cd internal/proof/bench && $(GOLANGCI_LINT) run --build-tags e2e ./...
	cd examples/tracing && $(GOLANGCI_LINT) run ./...
	cd examples/interop && $(GOLANGCI_LINT) run ./...
	cd examples/anyprogram && $(GOLANGCI_LINT) run ./...
	cd reconcile/reconciletest/crd && $(GOLANGCI_LINT) run ./...
	cd internal/ship && $(GOLANGCI_LINT) run ./...

.PHONY: shellcheck
shellcheck:
	@command -v shellcheck >/dev/null || { echo "installing shellcheck, which looks at the scripts of examples/observe"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq shellcheck >/dev/null; }
	shellcheck examples/observe/scripts/*/*.sh

.PHONY: verify
verify: $(GOFUMPT) lint deadcode api $(CONTROLLER_GEN) ## Format, linters, documents, tidy modules, dead code, changes of the API, generated files, and the modules that stand apart.
	go test -vet=off .
	@fresh="$$(mktemp -d)"; trap 'rm -r "$$fresh"' EXIT; \
	  $(CONTROLLER_GEN) object crd paths=./examples/website/api/... output:object:dir="$$fresh" output:crd:stdout \
	    | diff - examples/website/deploy/crd.yaml && diff "$$fresh" examples/website/api/v1 --exclude website.go \
	    || { echo "the types of examples/website have changed: run make generate"; exit 1; }
	@unformatted="$$($(GOFUMPT) -l $(GO_FILES))"; \
	  if [ -n "$$unformatted" ]; then echo "run make fmt; not formatted:"; echo "$$unformatted"; exit 1; fi
	go mod tidy -diff
	cd internal/proof/bench && go mod tidy -diff && go run ./report check ../../../docs/benchmarks/results.txt ../../../docs/benchmarks
	go run ./internal/proof/published/page check docs/proof/results.jsonl docs/proof.md
	cd examples/tracing && go mod tidy -diff
	cd examples/interop && go mod tidy -diff
	cd examples/anyprogram && go mod tidy -diff
	cd reconcile/reconciletest/crd && go mod tidy -diff
	cd internal/proof/controlplane && go mod tidy -diff && CGO_ENABLED=0 go vet ./supervisor
	cd internal/proof/site && go mod tidy -diff && go test .
	cd internal/ship && go mod tidy -diff && go test .
	cd internal/proof/published/cluster-api && go mod tidy -diff
	cd internal/proof/published/cluster-api-fixed && go mod tidy -diff
	cd internal/proof/published/argo-rollouts && go mod tidy -diff && go mod tidy -diff -modfile=fixed.mod
	@# -e: package informer, which tests of the kit import, needs a newer client-go than that of 1.35
	cd internal/proof/published/kubernetes && go mod tidy -diff && go mod tidy -e -diff -modfile v1.35.4.mod
	cd internal/proof/published/resourceclaim && for m in go.mod v*.mod; do go mod tidy -modfile $$m -diff; done
	cd internal/proof/published/resourceslice && for m in go.mod v*.mod; do go mod tidy -modfile $$m -diff; done
	cd internal/proof/coredns && go mod tidy -diff && CGO_ENABLED=0 go vet .

.PHONY: deadcode
deadcode: $(DEADCODE) ## Functions that no program or test calls, exported API aside.
	@# internal/proof/published is for modules of its own
	@all="$$($(DEADCODE) -test -tags e2e,mutate ./...)"; \
	  dead="$$(grep -E '^[^:]*(internal|examples)/|[ .][a-z][A-Za-z0-9]*$$' <<<"$$all" | grep -v '^internal/proof/published/' || true)"; \
	  if [ -n "$$dead" ]; then echo "nothing calls"; echo "$$dead"; exit 1; fi

.PHONY: vulnerabilities
vulnerabilities: $(GOVULNCHECK) ## Known vulnerabilities in what the modules call. Needs vuln.go.dev.
	@for module in $$(git ls-files '*go.mod' | xargs -n1 dirname); do echo "$$module"; (cd "$$module" && $(GOVULNCHECK) ./...); done

# The last release, or whatever else the API is to be compared with: make api SINCE=HEAD~20.
SINCE = $(shell git describe --tags --abbrev=0 2>/dev/null)

.PHONY: api
api: $(APIDIFF) ## How the exported API differs from the last release (SINCE=commit). Never fails.
	@if [ -z "$(SINCE)" ]; then echo "no tag to compare the API with"; exit 0; fi; \
	  old="$$(mktemp -d)"; trap 'git worktree remove --force "$$old/tree"; rm -rf "$$old"' EXIT; \
	  git worktree add --detach --quiet "$$old/tree" "$(SINCE)"; \
	  (cd "$$old/tree" && $(APIDIFF) -m -w "$$old/api" .) && echo "the API since $(SINCE):" && $(APIDIFF) -m "$$old/api" . || true

.PHONY: bench
bench: $(BENCHSTAT) ## Benchmarks beside controller-runtime and client-go (BENCH=regexp, COUNT=10).
	cd internal/proof/bench && go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),10) -timeout 3h ./... | tee $(BIN)/bench.txt
	$(BENCHSTAT) -col /impl $(BIN)/bench.txt

.PHONY: pictures
pictures: ## Draw docs/pictures/*.svg: from the graphs beside them, and from the trace of a bug that is found.
	@command -v dot >/dev/null || { echo "installing graphviz"; apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq graphviz >/dev/null; }
	@# the grey of the lines is lighter where the page is dark
	for graph in docs/pictures/*.dot; do dot -Tsvg "$$graph" | sed '0,/viewBox[^>]*>/s//&\n<style>@media(prefers-color-scheme:dark){[stroke="#57606a"]{stroke:#b1bac4}[fill="#57606a"]{fill:#b1bac4}}<\/style>/' \
	  > "$${graph%.dot}.svg"; done
	go test -vet=off ./internal/proof/zoo -run '^TestPictureShowsTheFailure$$' -draw

.PHONY: bench-report
bench-report: ## Run all benchmarks on this machine, an hour, and make docs/benchmarks/README.md from them (COUNT=5, SUITE=queue for one).
	cd internal/proof/bench && go run ./report -count $(or $(COUNT),5) -suite "$(SUITE)" run ../../../docs/benchmarks/results.txt
	$(MAKE) bench-page

.PHONY: bench-page
bench-page: ## Make what docs/benchmarks has of docs/benchmarks/results.txt again, and what docs/scaling.md has of that.
	cd internal/proof/bench && go run ./report write ../../../docs/benchmarks/results.txt ../../../docs/benchmarks
	go test -vet=off . -run '^TestRewriteSnippets$$' -rewrite

# What is found is kept there until all of it is.
PROOF_RESULTS = $(BIN)/proof.jsonl
PROOF = PROOF_RESULTS=$(PROOF_RESULTS) $(TEST) -trimpath -count=1 -v

.PHONY: proof
proof: ## Explore controllers that others have published, unmodified, and make docs/proof.md of what is found. Not part of make test.
	mkdir -p $(BIN) docs/proof
	go run ./internal/proof/published/page begin $(PROOF_RESULTS) $$(git rev-parse --short HEAD)
	cd internal/proof/published/kubernetes && $(PROOF) -timeout 60m .
	cd internal/proof/published/kubernetes && $(PROOF) -modfile v1.35.4.mod -tags before136 -run '^TestPair' -timeout 20m .
	cd internal/proof/published/resourceslice && $(PROOF) -timeout 10m .
	cd internal/proof/published/resourceslice && $(PROOF) -modfile v0.36.3.mod -timeout 10m .
	cd internal/proof/published/resourceclaim && $(PROOF) -timeout 10m .
	cd internal/proof/published/resourceclaim && $(PROOF) -modfile v1.36.3.mod -tags before137 -timeout 10m .
	cd internal/proof/published/cluster-api && $(PROOF) -timeout 30m .
	cd internal/proof/published/cluster-api-fixed && $(PROOF) -timeout 30m .
	cd internal/proof/published/argo-rollouts && $(PROOF) -timeout 30m .
	cd internal/proof/published/argo-rollouts && $(PROOF) -modfile fixed.mod -tags fixed -timeout 30m .
	mv $(PROOF_RESULTS) docs/proof/results.jsonl
	$(MAKE) --no-print-directory proof-page

.PHONY: proof-page
proof-page: ## Make docs/proof.md from docs/proof/results.jsonl, and internal/proof/published/page/proof.md, again.
	go run ./internal/proof/published/page write docs/proof/results.jsonl docs/proof.md

# Explorations of examples, and of the reboot operator's cases (CASES= for none: they take 20 minutes and more).
CASES = TestExplore
.PHONY: tables
tables: ## Measure the tables of docs/testing.md again: the zoo, and the explorations of the examples, to their ends.
	$(TEST) -json -count=1 -timeout 1h -run '^TestZoo$$' ./internal/proof/zoo -twin 30m \
	  | go run ./internal/proof/tables docs/testing.md
	RECONCILETEST_BUDGET=1h $(TEST) -json -count=1 -p 1 -timeout 2h -run '^TestItSurvivesEveryFault$$' ./examples/... \
	  | go run ./internal/proof/tables docs/testing.md
	$(if $(CASES),RECONCILETEST_BUDGET=1h $(TEST) -json -count=1 -timeout 2h -run '^$(CASES)' ./examples/reboot/internal/model \
	  | go run ./internal/proof/tables docs/testing.md)

.PHONY: cover
cover: ## Coverage of the unit tests.
	go test -coverprofile cover.out ./...
	go tool cover -func cover.out | tail -1

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME (30s).
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/func //' | while IFS=: read -r file target; do \
	  echo "$$target in $$(dirname $$file)"; \
	  go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),30s) "$$(dirname $$file)"; \
	done

.PHONY: docs
docs: ## Take the marked snippets of the documents from the code again, and check links, commands and snippets.
	go test -vet=off . -run '^TestRewriteSnippets$$' -rewrite
	go test -vet=off .

# Nothing for root, who may not have it.
SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# The commit that is built: make images COMMIT= builds the work tree as it is.
COMMIT = HEAD
PLATFORMS = linux/amd64,linux/arm64
.PHONY: images
images: ## OCI images of all programs in dist/images, without a Docker daemon (PROGRAMS="website podlog", PLATFORMS, COMMIT).
	cd internal/ship && go run . images -root $(CURDIR) -out $(CURDIR)/dist/images -commit "$(COMMIT)" -platforms $(PLATFORMS) $(PROGRAMS)

.PHONY: push
push: ## Push the images in dist/images, and the charts in dist/charts: make push REGISTRY=ghcr.io/you (PROGRAMS).
	cd internal/ship && go run . push -out $(CURDIR)/dist/images -to "$(REGISTRY)" $(PROGRAMS)
	cd internal/ship && go run . push-charts -into $(CURDIR)/dist/charts -to "$(REGISTRY)" $(PROGRAMS)

.PHONY: verify-deploy
verify-deploy: controlplane-build ## Start every program from its image, with its manifests, on the real API server; judge its permissions.
	$(MAKE) images PLATFORMS=linux/$$(go env GOARCH)
	cd internal/ship && go build -o $(BIN)/ship .
	go build -o $(BIN)/verify-deploy ./internal/proof/deploy
	@# programs are started within the files of their images, and as other users
	$(SUDO) $(BIN)/ship unpack -out dist/images -platforms linux/$$(go env GOARCH) -into dist/rootfs $(PROGRAMS)
	$(SUDO) $(BIN)/verify-deploy -images dist/rootfs $(PROGRAMS)
	$(MAKE) --no-print-directory verify-arm64 PROGRAMS=

ARM64 = dist/arm64
.PHONY: verify-arm64
verify-arm64: ## Start programs of the arm64 images on this machine: elsewhere under qemu, which it gets from Debian.
	@found() { command -v qemu-aarch64-static || command -v qemu-aarch64 || ls $(BIN)/qemu/usr/bin/qemu-aarch64-static 2>/dev/null \
	    || ls $(BIN)/qemu/usr/bin/qemu-aarch64 2>/dev/null || true; }; \
	qemu=; if [ "$$(go env GOARCH)" != arm64 ]; then qemu="$$(found)"; \
	  for package in qemu-user-static qemu-user; do \
	    if [ -z "$$qemu" ] && command -v apt-get >/dev/null; then echo "getting $$package"; mkdir -p $(BIN)/qemu; \
	      (cd $(BIN)/qemu && apt-get download -qq $$package && dpkg -x $${package}_*.deb . && rm $${package}_*.deb) || true; qemu="$$(found)"; fi; \
	  done; \
	  if [ -z "$$qemu" ]; then echo "skipped: no qemu for arm64 here, and no apt-get that brings it"; exit 0; fi; fi; \
	programs="$(or $(PROGRAMS),podlog observe)"; \
	(cd internal/ship && go run . images -root $(CURDIR) -out $(CURDIR)/$(ARM64)/images -commit "$(COMMIT)" -platforms linux/arm64 $$programs && \
	  go run . unpack -out $(CURDIR)/$(ARM64)/images -platforms linux/arm64 -into $(CURDIR)/$(ARM64)/rootfs $$programs); \
	for p in $$programs; do \
	  $$qemu $(ARM64)/rootfs/$$p/$$p --version 2>&1 | grep "(commit [0-9a-f]*)"; \
	  $$qemu $(ARM64)/rootfs/$$p/$$p --help 2>&1 | grep -- -kubeconfig >/dev/null || { echo "$$p --help does not list its flags"; exit 1; }; \
	done

.PHONY: manifests
manifests: ## Write examples/*/deploy/install.yaml from the kustomizations.
	cd internal/ship && go run . manifests -root $(CURDIR)

.PHONY: charts
charts: ## Helm charts of all programs in dist/charts, from the kustomizations.
	cd internal/ship && go run . charts -root $(CURDIR) -into $(CURDIR)/dist/charts

.PHONY: release
release: ## What a release consists of, in dist: notes, changes of the API, images, manifests, charts, docs/proof.md made anew (make release VERSION=v0.1.0).
	@[ -n "$(VERSION)" ] || { echo "which release? make release VERSION=v0.1.0"; exit 1; }
	cd internal/ship && go run . manifests -root $(CURDIR) -tag "$(VERSION)" -check
	mkdir -p dist
	cd internal/ship && go run . notes -root $(CURDIR) -tag "$(VERSION)" > $(CURDIR)/dist/notes.md
	$(MAKE) --no-print-directory api SINCE="$$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null)" > dist/api.txt
	cd internal/ship && go run . manifests -root $(CURDIR) -tag "$(VERSION)" -into $(CURDIR)/dist/manifests
	cd internal/ship && go run . charts -root $(CURDIR) -tag "$(VERSION)" -into $(CURDIR)/dist/charts
	cd internal/ship && go run . images -root $(CURDIR) -out $(CURDIR)/dist/images -commit "$(COMMIT)" -tag "$(VERSION)" \
	  -platforms $(PLATFORMS) $(PROGRAMS) | tee $(CURDIR)/dist/images.txt
	@# last, since it takes longest: images are of the commit, which does not have the new page
	$(MAKE) --no-print-directory proof
	cp docs/proof.md dist/proof.md

.PHONY: site
site: ## The documents as a static site, in bin/site.
	rm -rf $(BIN)/site
	cd internal/proof/site && go test . && go run . -root $(CURDIR) -out $(BIN)/site

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BIN) dist cover.out

$(GOLANGCI_LINT):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION) (about two minutes, once)"
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@

$(GOFUMPT):
	GOBIN=$(BIN) go install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)
	mv $(BIN)/gofumpt $@

$(BENCHSTAT):
	GOBIN=$(BIN) go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
	mv $(BIN)/benchstat $@

$(APIDIFF):
	GOBIN=$(BIN) go install golang.org/x/exp/cmd/apidiff@$(APIDIFF_VERSION)
	mv $(BIN)/apidiff $@

$(CONTROLLER_GEN):
	GOBIN=$(BIN) go install sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN_VERSION)
	mv $(BIN)/controller-gen $@

$(DEADCODE):
	GOBIN=$(BIN) go install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)
	mv $(BIN)/deadcode $@

$(GOVULNCHECK):
	GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	mv $(BIN)/govulncheck $@

$(ACTIONLINT):
	GOBIN=$(BIN) go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	mv $(BIN)/actionlint $@
