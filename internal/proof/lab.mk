# The laboratory: what proves, measures and releases. The Makefile at the root includes it.

# What the API is compared with: the last release, or make api SINCE=HEAD~20.
SINCE = $(shell git describe --tags --abbrev=0 2>/dev/null)
# What is found is kept there until all of it is.
PROOF_RESULTS = $(BIN)/proof.jsonl
PROOF = PROOF_RESULTS=$(PROOF_RESULTS) GOWORK=off $(TEST) -count=1 -v
# Explorations of examples, and of the reboot operator's cases (CASES= for none: they take 20 minutes and more).
CASES = TestExplore
# Nothing for root, who may not have it.
SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# The commit that is built: make images COMMIT= builds the work tree as it is.
COMMIT = HEAD
PLATFORMS = linux/amd64,linux/arm64
ARM64 = dist/arm64

.PHONY: vulnerabilities
vulnerabilities: ## Known vulnerabilities in what the modules call. Needs vuln.go.dev.
	@for module in $$(git ls-files '*go.mod' | xargs -n1 dirname); do echo "$$module"; (cd "$$module" && $(TOOL) govulncheck ./...); done

.PHONY: api
api: ## How the exported API differs from the last release (SINCE=commit). Never fails.
	@if [ -z "$(SINCE)" ]; then echo "no tag to compare the API with"; exit 0; fi; \
	  old="$$(mktemp -d)"; trap 'git worktree remove --force "$$old/tree"; rm -rf "$$old"' EXIT; \
	  git worktree add --detach --quiet "$$old/tree" "$(SINCE)"; \
	  (cd "$$old/tree" && $(TOOL) apidiff -m -w "$$old/api" .) && echo "the API since $(SINCE):" && $(TOOL) apidiff -m "$$old/api" . || true

.PHONY: pictures
pictures: ## Draw docs/pictures/*.svg: from the graphs beside them, and from the trace of a bug that is found.
	@command -v dot >/dev/null || { echo "dot is not installed: get Debian's package graphviz"; exit 1; }
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

.PHONY: proof
proof: ## Explore controllers that others have published, unmodified, and make docs/proof.md of what is found. Not part of make test.
	mkdir -p $(BIN) docs/proof
	go run ./internal/proof/published/page begin $(PROOF_RESULTS) $$(git rev-parse --short HEAD)
	$(MAKE) --no-print-directory $(PROOF_PARTS:%=proof-of-%)
	mv $(PROOF_RESULTS) docs/proof/results.jsonl
	$(MAKE) --no-print-directory proof-page

.PHONY: proof-part
proof-part: ## Repeat a folder of make proof, and put its results in place of its earlier ones (PART=jobs).
	mkdir -p $(BIN)
	go run ./internal/proof/published/page begin $(PROOF_RESULTS) $$(git rev-parse --short HEAD)
	$(MAKE) --no-print-directory $(PART:%=proof-of-%)
	go run ./internal/proof/published/page merge docs/proof/results.jsonl $(PROOF_RESULTS)
	$(MAKE) --no-print-directory proof-page

# The folders of internal/proof/published that explore.
PROOF_PARTS = kubernetes resourceslice resourceclaim jobs cluster-api cluster-api-fixed argo-rollouts cert-manager snapshotter
EXPLORE = cd internal/proof/published/$(@:proof-of-%=%) && $(PROOF)

.PHONY: $(PROOF_PARTS:%=proof-of-%)
proof-of-kubernetes:
	$(EXPLORE) -timeout 60m .
	$(EXPLORE) -modfile v1.35.4.mod -tags before136 -run '^TestPair' -timeout 20m .
proof-of-resourceslice:
	$(EXPLORE) -timeout 10m .
	$(EXPLORE) -modfile v0.36.3.mod -timeout 10m .
proof-of-resourceclaim:
	$(EXPLORE) -timeout 10m .
	$(EXPLORE) -modfile v1.36.3.mod -tags before137 -timeout 10m .
proof-of-jobs:
	$(EXPLORE) -timeout 10m .
	$(EXPLORE) -modfile v1.36.3.mod -timeout 10m .
proof-of-cluster-api proof-of-cluster-api-fixed:
	$(EXPLORE) -timeout 30m .
proof-of-argo-rollouts:
	$(EXPLORE) -timeout 30m .
	$(EXPLORE) -modfile fixed.mod -tags fixed -timeout 30m .
proof-of-cert-manager:
	$(EXPLORE) -timeout 20m .
	$(EXPLORE) -modfile fixed.mod -tags fixed -timeout 20m .
proof-of-snapshotter:
	$(EXPLORE) -timeout 10m .
	$(EXPLORE) -modfile fixed.mod -tags fixed -timeout 10m .

.PHONY: proof-page
proof-page: ## Make docs/proof.md from docs/proof/results.jsonl, and internal/proof/published/page/proof.md, again.
	go run ./internal/proof/published/page write docs/proof/results.jsonl docs/proof.md

.PHONY: peers
peers: controlplane-build ## Run client-go's and controller-runtime's own tests against package informer/clientgo, and make docs/peers.md of them.
	go run ./internal/proof/peers docs/peers.md

.PHONY: operators
operators: controlplane-build ## Build published operators as released and with our cache, an hour or two, measure both, and make docs/benchmarks/operators.md (ROUNDS=3, OPERATORS="descheduler …" for some).
	cd internal/proof/bench && go run ./operators -rounds $(or $(ROUNDS),3) -page ../../../docs/benchmarks/operators.md $(OPERATORS)

.PHONY: tables
tables: ## Measure the tables of docs/testing.md again: the zoo, and the explorations of the examples, to their ends.
	$(TEST) -json -count=1 -timeout 1h -run '^TestZoo$$' ./internal/proof/zoo -twin 30m \
	  | go run ./internal/proof/tables docs/testing.md
	RECONCILETEST_BUDGET=1h $(TEST) -json -count=1 -p 1 -timeout 2h -run '^TestItSurvivesEveryFault$$' $(filter ./examples/%,$(MODULES)) \
	  | go run ./internal/proof/tables docs/testing.md
	$(if $(CASES),RECONCILETEST_BUDGET=1h $(TEST) -json -count=1 -timeout 2h -run '^$(CASES)' ./examples/reboot/internal/model \
	  | go run ./internal/proof/tables docs/testing.md)

.PHONY: cover
cover: ## Coverage of the unit tests.
	go test -coverprofile cover.out $(SHIPPED)
	go tool cover -func cover.out | tail -1

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME (30s).
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/func //' | while IFS=: read -r file target; do \
	  echo "$$target in $$(dirname $$file)"; \
	  go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),30s) "$$(dirname $$file)"; \
	done

# The version of images and charts. Images are made from a clone of the commit, so nothing is in them that is not committed.
TAG = $(or $(VERSION),$(shell git describe --tags --always))
SHIP_TOOL = GOWORK=off go tool -modfile=$(CURDIR)/internal/ship/go.mod
ship = tree=$(CURDIR); if [ -n "$(COMMIT)" ]; then tree="$$(mktemp -d)"; trap 'rm -rf "$$tree"' EXIT; \
  git clone --quiet --shared --no-checkout . "$$tree"; git -C "$$tree" checkout --quiet --detach "$$(git rev-parse --verify "$(COMMIT)^{commit}")"; fi; \
  cd internal/ship && GOWORK=off go build -o $(BIN)/ship . && cd $(CURDIR) && $(BIN)/ship -root "$$tree" -tag "$(TAG)" $(1)

.PHONY: images
images: ## OCI images of all programs in dist/images, without a Docker daemon (PROGRAMS="website podlog", PLATFORMS, COMMIT).
	@$(call ship,-out $(CURDIR)/dist/images -platforms $(PLATFORMS) $(PROGRAMS))

.PHONY: push
push: ## Push images, and the charts in dist/charts: make push REGISTRY=ghcr.io/you (PROGRAMS).
	@$(call ship,-to "$(REGISTRY)" -platforms $(PLATFORMS) $(PROGRAMS))
	@for chart in $(wildcard dist/charts/*.tgz); do $(SHIP_TOOL) helm push "$$chart" "oci://$(REGISTRY)/charts"; done

.PHONY: verify-deploy
verify-deploy: controlplane-build ## Start every program from its image, with its manifests, on the real API server; judge its permissions.
	cd internal/ship && GOWORK=off go test -timeout 20m .
	@$(call ship,-unpack $(CURDIR)/dist/rootfs -platforms linux/$$(go env GOARCH) $(PROGRAMS))
	go build -o $(BIN)/verify-deploy ./internal/proof/deploy
	GOWORK=off go build -modfile=internal/ship/go.mod -o $(BIN)/helm helm.sh/helm/v4/cmd/helm
	@# programs are started within the files of their images, and as other users
	$(SUDO) $(BIN)/verify-deploy -images dist/rootfs -helm $(BIN)/helm $(PROGRAMS)
	$(MAKE) --no-print-directory verify-arm64 PROGRAMS=

.PHONY: gameday
gameday: controlplane-build ## Let things go wrong beside a real Prometheus (Debian's package), half an hour, and write docs/gameday.md: what the person on call sees (INCIDENTS='"clock ahead" fight' for some).
	@if ! command -v prometheus >/dev/null; then echo "skipped: prometheus is not installed: get Debian's package prometheus"; else \
	  go run ./internal/proof/gameday -results docs/gameday.jsonl -out docs/gameday.md $(INCIDENTS); fi

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
	($(call ship,-unpack $(CURDIR)/$(ARM64) -platforms linux/arm64 $$programs)); \
	for p in $$programs; do \
	  $$qemu $(ARM64)/$$p/ko-app/$$p --version 2>&1 | grep "(commit [0-9a-f]*)"; \
	  $$qemu $(ARM64)/$$p/ko-app/$$p --help 2>&1 | grep -- -kubeconfig >/dev/null || { echo "$$p --help does not list its flags"; exit 1; }; \
	done

.PHONY: manifests
manifests: ## Write examples/*/deploy/install.yaml from the kustomizations.
	@for folder in examples/*/deploy; do (echo "# Made by make manifests from the kustomization here. Apply it with kubectl apply --server-side -f."; \
	  $(SHIP_TOOL) kustomize build --reorder=none $$folder) > $$folder/install.yaml.new && mv $$folder/install.yaml.new $$folder/install.yaml; done

.PHONY: charts
charts: ## Helm charts of the products in dist/charts.
	$(SHIP_TOOL) helm package examples/reboot/chart examples/observe/chart -d dist/charts --app-version "$(TAG)" \
	  --version "$(if $(VERSION),$(VERSION:v%=%),0.0.0-$(TAG))"

.PHONY: release
release: ## What a release consists of, in dist: notes, changes of the API, images, manifests, charts, docs/proof.md made anew (make release VERSION=v0.1.0).
	@[ -n "$(VERSION)" ] || { echo "which release? make release VERSION=v0.1.0"; exit 1; }
	@! grep 'newTag: ' examples/release/kustomization.yaml | grep -v ' $(VERSION)$$' || { echo "the manifests are of another release: set its tag in examples/release, and run make manifests"; exit 1; }
	$(MAKE) --no-print-directory manifests && git diff --exit-code 'examples/*/deploy/install.yaml'
	mkdir -p dist
	awk -v v='$(VERSION:v%=%)' 'BEGIN { print "# v" v "\n" } /^## / { within = index($$0, "## [" v "]") + index($$0, "## [Unreleased]"); next } within' CHANGELOG.md > dist/notes.md
	@[ "$$(wc -l < dist/notes.md)" -gt 3 ] || { echo "CHANGELOG.md has no section about $(VERSION)"; exit 1; }
	$(MAKE) --no-print-directory api SINCE="$$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null)" > dist/api.txt
	mkdir -p dist/manifests
	for file in examples/*/deploy/install.yaml; do cp "$$file" "dist/manifests/$$(echo "$$file" | cut -d / -f 2).yaml"; done
	$(MAKE) --no-print-directory charts
	$(MAKE) --no-print-directory images | tee dist/images.txt
	@# last, since it takes longest: images are of the commit, which does not have the new page
	$(MAKE) --no-print-directory proof
	cp docs/proof.md dist/proof.md

.PHONY: site
site: ## The documents as a static site, in bin/site.
	rm -rf $(BIN)/site
	cd internal/proof/site && go test . && go run . -root $(CURDIR) -out $(BIN)/site

TIMES = 200
.PHONY: chance
chance: ## Look for tests that are red by chance: each package many times, under the race detector, on a busy machine (PACKAGES="./queue ./names", TIMES=200).
	go run ./internal/proof/chance -n $(TIMES) $$(go list $(or $(PACKAGES),$(SHIPPED)))
