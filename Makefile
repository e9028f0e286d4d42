SOAK ?= 10m

# Every module that go.work lists: the library, the examples, the benchmarks.
EACH := ./.ci/each-module

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: redis
redis: ## Install redis-server, if the machine has none
	@if [ -n "$$HEADWAY_REDIS_SERVER" ]; then command -v "$$HEADWAY_REDIS_SERVER" >/dev/null || \
		{ echo "HEADWAY_REDIS_SERVER names $$HEADWAY_REDIS_SERVER, which is not in PATH" >&2; exit 1; }; \
	elif ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then ./.ci/install-redis; fi

.PHONY: browser
browser: ## Install Chromium, if the machine has none
	@./.ci/install-chromium

.PHONY: test
test: redis browser ## Run every test of every module, with the race detector
	@race=-race; cc=$$(go env CC); \
	if [ "$$(go env CGO_ENABLED)" != 1 ] || ! command -v $${cc%% *} >/dev/null; then \
		race=; echo "No C compiler, or CGO_ENABLED=0: the tests run without the race detector."; fi; \
	$(EACH) go test $$race -p 1 -shuffle=on -timeout 25m ./... # one package at a time: some tests measure

.PHONY: soak
soak: redis ## Break things at random (SOAK=10m)
	@cd pacer/faulttest && HEADWAY_SOAK=$(SOAK) go test -count=1 -run TestSoak -v -timeout 24h .

.PHONY: lint
lint: ## Check formatting and run the linters
	@./.ci/lint/run

.PHONY: fmt
fmt: ## Format every Go file
	@$(EACH) gofmt -l -w .

.PHONY: bench
bench: redis ## Measure against the peers, into docs/benchmarks
	@mkdir -p docs/benchmarks
	@cd pacer/bench && HEADWAY_BENCH=../../docs/benchmarks go test -count=1 -run '^TestReport$$' -v -timeout 20m .

.PHONY: pictures
pictures: browser ## Draw the pictures of the documentation anew, into docs/pictures
	@cd pacer/bench && HEADWAY_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run Pictures .
	@cd pacer/cmd/headway && HEADWAY_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run Picture ./...
	@cd pacer/page/browsertest && HEADWAY_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run Picture ./...

.PHONY: tidy
tidy: ## Tidy every go.mod
	@$(EACH) go mod tidy
	@GOWORK=off go -C .ci/lint mod tidy

.PHONY: cover
cover: redis ## Measure the library's coverage, into .cache/cover.html
	@mkdir -p .cache
	@go test -covermode=atomic -coverpkg=./... -coverprofile=.cache/cover.out -timeout 25m ./...
	@go tool cover -html=.cache/cover.out -o .cache/cover.html
	@go tool cover -func=.cache/cover.out | tail -n 1
