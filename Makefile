SOAK ?= 10m
STRESS ?= 4 3 3

# Every module that go.work lists: the library, the examples, the benchmarks.
EACH := ./.ci/each-module

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: redis
redis: ## Install redis-server, if the machine has none
	@if [ -n "$$HEADWAY_REDIS_SERVER" ]; then command -v "$$HEADWAY_REDIS_SERVER" >/dev/null || \
		{ echo "HEADWAY_REDIS_SERVER names $$HEADWAY_REDIS_SERVER, which is not in PATH" >&2; exit 1; }; \
	elif ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then ./.ci/install-redis; fi

.PHONY: browser
browser: ## Install Chromium, if the machine has none
	@./.ci/install-chromium

.PHONY: postgres
postgres: ## Install PostgreSQL, if the machine has none
	@./.ci/install-postgres

.PHONY: lua
lua: ## Install the compiler of Lua 5.4, if the machine has none
	@./.ci/install-lua

.PHONY: test
test: redis postgres browser lua ## Run every test of every module, with the race detector
	@./.ci/test

.PHONY: stress
stress: redis postgres browser lua ## Run the tests ten times, quiet and busy, then long histories and random faults (STRESS="4 3 3" SOAK=10m)
	@HEADWAY_SOAK=$(SOAK) ./.ci/stress $(STRESS)

.PHONY: compat
compat: redis ## Judge the Redis store on Redis 6.2 and Valkey 8, installed or built where they can be had
	@./.ci/compat

.PHONY: lint
lint: ## Check formatting and run the linters
	@./.ci/lint/run

.PHONY: fmt
fmt: ## Format every Go file
	@$(EACH) gofmt -l -w .

.PHONY: bench
bench: redis browser ## Measure against the peers, into docs/benchmarks, and fleets against strict upstreams
	@mkdir -p docs/benchmarks
	@cd pacer/bench && HEADWAY_BENCH=../../docs/benchmarks go test -tags measure -count=1 -run '^TestReport$$' -v -timeout 20m .
	@go test -tags measure -count=1 -v -timeout 60m -run Fleet ./pacer/redisstore
	@cd pacer/cmd/headway && go test -tags measure -count=1 -v -run Predicts ./internal/simulate
	@for dir in pacer/asynqpacer pacer/riverpacer; do go -C $$dir test -tags measure -count=1 -v -run Fleet . || exit 1; done
	@for dir in pacer/page/browsertest pacer/serve/clienttest; do go -C $$dir test -tags measure -count=1 . || exit 1; done

.PHONY: pictures
pictures: browser ## Draw the pictures of the documentation anew, into docs/pictures
	@cd pacer/bench && HEADWAY_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run Pictures .
	@cd pacer/cmd/headway && HEADWAY_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run Picture ./...
	@cd pacer/page/browsertest && HEADWAY_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run 'Picture|AnEditedFile' ./...

.PHONY: docs
docs: ## Make a site of the documentation, into .cache/site, and check its links
	@./.ci/docs/build

.PHONY: api
api: ## Compare what the modules export with their last release
	@./.ci/api

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what each module calls
	@./.ci/vuln

.PHONY: vendors
vendors: ## List the pages of vendors that were last read more than 180 days ago
	@./.ci/vendors

.PHONY: actions
actions: ## Check the workflows of GitHub Actions, and that each action is pinned by the hash of a commit
	@"$$(./.ci/tools/build actionlint)/actionlint"
	@! grep -rnE '^[^#]*uses: ' .github/workflows | grep -vE '@[0-9a-f]{40} # v[0-9.]+$$'

.PHONY: release-check
release-check: ## Rehearse a release of what is committed, and install it as users do
	@./.ci/release-check

.PHONY: tidy
tidy: ## Tidy every go.mod
	@$(EACH) go mod tidy
	@for dir in .ci/gotestsum .ci/lint .ci/tools; do GOWORK=off go -C $$dir mod tidy; done

.PHONY: cover
cover: redis ## Measure the library's coverage, into .cache/cover.html
	@mkdir -p .cache
	@go test -covermode=atomic -coverpkg=./... -coverprofile=.cache/cover.out -timeout 25m ./...
	@go tool cover -html=.cache/cover.out -o .cache/cover.html
	@go tool cover -func=.cache/cover.out | tail -n 1
