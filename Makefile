# The commands of the project. Everything is run as root on Debian 12 with Go
# installed; `make deps` brings the rest.

BIN      := bin
COMMIT   ?= $(shell git describe --always --exclude '*' --dirty 2>/dev/null || echo unknown)
# The time of the source, not that of the build: whoever builds it gets the same programs.
EPOCH    := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)
TIME     ?= $(shell date -u -d @$(EPOCH) +%Y-%m-%dT%H:%M:%SZ)
INFO     := github.com/contiv/netplugin/utils/buildinfo
LDFLAGS  := -s -w -X $(INFO).GitCommit=$(COMMIT) -X $(INFO).BuildTime=$(TIME)
# Programs are built and the code is looked at in one way, so that the packages of others
# are compiled once for all of it, and once more for tests with the race detector.
PLAIN    := CGO_ENABLED=0 GOFLAGS='$(shell go env GOFLAGS 2>/dev/null) -trimpath'
GOBUILD  := $(PLAIN) go build -ldflags '$(LDFLAGS)'

PROGRAMS := netmaster netplugin netctl contivk8s
PACKAGES := openvswitch-switch etcd-server etcd-client openssl containernetworking-plugins iproute2 iputils-ping \
            ethtool iperf3 openssh-client procps util-linux nftables iptables conntrack bash zsh fish patch gcc libc6-dev git ca-certificates systemd

# What only the long tests need: routers, a directory and name servers of others, and who listens on a link.
LONG_PACKAGES := bird2 frr slapd dnsmasq-base unbound bind9 tcpdump

# The folders with tests that take long: those are called TestLong..., which test/testkit makes sure of.
LONG = $(shell grep -rl --include='*_test.go' --exclude-dir=bin '^func TestLong' . | xargs -n1 dirname | sort -u)

# Tests that bound the memory of a process: the race detector needs several times as much, so they do that without it.
MEMORY := TestWhoGuessesPasswordsHarmsNobody|TestHandshakesThatAreLeftLeaveNothing

# What only the comparisons with others need.
BENCH_PACKAGES := dnsmasq-base
PEER_PACKAGES  := ovn-central ovn-host

# What a Kubernetes cluster for tests needs beside its own components: how containers
# are run, a store, and what the suites run in pods.
K8S_PACKAGES := containerd runc busybox bind9-dnsutils netcat-openbsd iperf wget curl

# A test that hangs is a failure. The longest package takes seven minutes in a slow hour
# of our machine; in others it has twice the speed. Many tests mostly wait
# for timers of stores and switches: hence more of them at once than there are processors.
TESTFLAGS ?= -race -timeout 20m -p 4 -parallel 4
# A program with the race detector sleeps for a second before it ends, unless told otherwise: each package would.
export GORACE ?= atexit_sleep_ms=0

# Stories of whole clusters. Most count datagrams, which switches in user space lose that do not get to read their
# ports: no other test runs beside them. The tests of switches follow them, as they take six minutes of processor time.
STORIES  := ./test/e2e ./test/history
SWITCHES := ./ofnet/pipeline ./drivers/ovsd ./drivers/uplink
COMPILE  := go list -race -test -deps -export

# They take longest and begin first, so that the others do not end long before them. Some mostly wait, some compute:
# beside each other they leave no processor idle.
LONGEST := ./objdb/ledger ./netmaster/api ./netplugin/hostaccess ./objdb ./cmd/netmaster ./netmaster/daemon ./objdb/mirror \
           ./objdb/embedded ./netctl ./mgmtfn/k8splugin ./netmaster/k8s ./netplugin/bgp ./objdb/space

# Packages whose tests link a store server or a client of Kubernetes, or are all
# about processes and namespaces: building them takes longer than a minute. The
# tests of the others that need a machine skip themselves (testkit.NeedsMachine).
SLOW := /cmd/|/systemd$$|/objdb|/netmaster/(api|daemon|gate|k8s|master|internal/.*)$$|/netctl$$|/netplugin/(hostaccess|bgp)$$|/k8splugin(/labels|/podlink)?$$|/k8sutils$$|/test/(e2e|history|testbed|ovstest|fakenode|scenario)

.PHONY: help deps build images build-test unit test e2e e2e-long e2e-k8s e2e-k8s-long e2e-k8s-short k8s-build k8s-up k8s-down k8s-shell lint demo bench bench-peers bench-k8s sbom release release-key vulncheck clean

help: ## show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t14

deps: ## install the Debian packages and Go modules that building and testing need
	@scripts/deps.sh $(PACKAGES)

build: ## build the static binaries into bin/
	@mkdir -p $(BIN)
	@for p in $(PROGRAMS); do $(GOBUILD) -o $(BIN)/$$p ./cmd/$$p || exit 1; done

images: build ## make the container images of deploy/kubernetes: bin/contiv-images.tar
	@scripts/deps.sh openvswitch-switch nftables
	@cd scripts/tools && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../$(BIN)/ github.com/containernetworking/plugins/plugins/main/loopback
	@go run ./deploy/images $(BIN) $(BIN)/contiv-images.tar

build-test: build ## build the programs the test bed needs
	@$(PLAIN) go build -o $(BIN)/ ./test/cmd/... github.com/containernetworking/cni/cnitool

lint: ## gofmt, go vet, staticcheck, and whether modules of others are as they were downloaded
	@unformatted=$$(git ls-files "*.go" | xargs gofmt -l); [ -z "$$unformatted" ] || { echo "not gofmt-ed:" $$unformatted; exit 1; }
	@$(PLAIN) go vet ./...
	@$(PLAIN) go tool staticcheck ./...
	@go mod verify > /dev/null
	@cd scripts/tools && go mod verify > /dev/null

unit: ## run the tests that need neither root nor packages; a minute at most
	@$(PLAIN) go test -short -vet=off $$(go list ./... | grep -vE '$(SLOW)')

test: deps build-test lint ## install what is needed, lint and run every test but those of the targets e2e...
	@tests="$(LONGEST) $$(go list ./... | grep -vE '/(test/(e2e|history)|ofnet/pipeline|drivers/(ovsd|uplink))$$')"; \
	$(COMPILE) $$tests > /dev/null && go test $(TESTFLAGS) -vet=off $$tests

e2e: deps build-test ## run the stories of whole clusters, and the tests of switches; fifteen minutes
	@$(COMPILE) $(STORIES) $(SWITCHES) > /dev/null
	@go test $(TESTFLAGS) -vet=off -p 1 $(STORIES)
	@go test $(TESTFLAGS) -vet=off $(SWITCHES)

e2e-long: deps build-test ## run the long tests
	@scripts/deps.sh $(LONG_PACKAGES)
	@CONTIV_TEST_LONG=1 go test -race -vet=off -count=1 -timeout 90m -p 1 -v -run '^TestLong' $(filter-out ./test/k8s/%,$(LONG))
	@go test -vet=off -count=1 -timeout 20m -v -run '^($(MEMORY))$$' ./cmd/netmaster

K8S := $(BIN)/k8s
K8S_SOURCES := scripts/k8s-build.sh $(wildcard test/k8s/tools/* test/k8s/tools/e2e/* test/k8s/tools/cnp/* test/k8s/tools/cyclonus/* test/k8s/tools/cyclonus/*/* test/k8s/coredns/* test/k8s/containerd/* test/k8s/pause/* test/k8s/images/*)

$(K8S)/images.tar: $(K8S_SOURCES)
	@scripts/deps.sh $(PACKAGES) $(K8S_PACKAGES)
	@scripts/k8s-build.sh $(K8S)

k8s-build: $(K8S)/images.tar ## build Kubernetes, its network tests and their images; ten minutes the first time

e2e-k8s: deps build-test images k8s-build ## run Kubernetes' own network tests on a cluster of this network
	@CONTIV_TEST_K8S=1 go test -v -count=1 -timeout 60m -p 1 ./test/k8s/...

e2e-k8s-long: deps build-test images k8s-build ## run those of them that take long
	@CONTIV_TEST_K8S=1 CONTIV_TEST_LONG=1 go test -v -count=1 -timeout 120m -p 1 -run '^TestLong' $(filter ./test/k8s/%,$(LONG))

e2e-k8s-short: deps build-test k8s-build ## run a few of them, in three minutes
	@CONTIV_TEST_K8S=short go test -v -count=1 -timeout 15m ./test/k8s/suite

k8s-up: deps build-test images k8s-build ## start a Kubernetes cluster of 3 nodes on this machine; prints the path of a kubeconfig last
	@$(BIN)/k8scluster up

k8s-down: ## end that cluster
	@$(BIN)/k8scluster down

k8s-shell: ## work on its first node, with kubectl and netctl
	@$(BIN)/k8scluster shell

demo: deps build-test ## a cluster of 3 nodes on this machine shows what it does, in a minute
	@$(BIN)/demo

bench: deps build-test ## measure, with the references in the same run
	@scripts/deps.sh $(BENCH_PACKAGES)
	@$(BIN)/bench

bench-peers: deps build-test ## measure beside OVN of Debian, on two nodes each
	@scripts/deps.sh $(PEER_PACKAGES)
	@$(BIN)/bench peers

bench-k8s: deps build-test k8s-build ## measure on a cluster of real parts, beside the CNI project's plugins and kube-proxy
	@$(BIN)/bench kubepods kubeproxy

sbom: build ## write what the programs are made of, as CycloneDX: bin/sbom.json
	@go run ./scripts/sbom $(addprefix $(BIN)/,$(PROGRAMS)) > $(BIN)/sbom.json.part || { rm -f $(BIN)/sbom.json.part; exit 1; }
	@mv $(BIN)/sbom.json.part $(BIN)/sbom.json

# Its signature is of the namespace contiv-release; docs/security.md tells how it is verified.
release: release-key sbom ## pack the programs and sign that with KEY=FILE, a key of ssh-keygen: bin/release/
	@scripts/release.sh $(BIN) $(BIN)/release $(EPOCH) '$(KEY)' $(PROGRAMS)

release-key: # before anything is built
	@test -r '$(KEY)' || { echo "release: KEY=$(KEY) is no key to sign with: make release KEY=FILE, a key of ssh-keygen" >&2; exit 1; }

vulncheck: ## look for known vulnerabilities; fails when the database cannot be had
	@mkdir -p $(BIN)
	@scripts/vulncheck.sh $(CURDIR)/$(BIN)

clean: ## remove what was built
	@rm -rf $(BIN)
