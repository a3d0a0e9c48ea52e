#!/bin/sh
# Builds what a Kubernetes cluster for tests is made of into the folder named as
# argument: its components, the network tests of Kubernetes, the tests and the custom resource of
# ClusterNetworkPolicy, the tests of cyclonus, CoreDNS, and the archive of the images that
# all of them need. The first time takes about ten minutes. A step that fails, or hangs because
# a module proxy does, ends it, and its last line says which.
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
limit=1200 # seconds of a step; the longest takes three minutes on two cores
began=$(date +%s)

step() { # WHAT COMMAND...
    what=$1
    shift
    printf '%4d s  %s\n' $(($(date +%s) - began)) "$what"
    timeout --foreground "$limit" "$@" && return
    code=$?
    why="exit code $code"
    [ $code != 124 ] || why="not done after $limit s"
    echo "k8s-build: $what: $why; without it there is no cluster for tests (GOPROXY=$(go env GOPROXY))" >&2
    exit 1
}

# All modules first, so that it is clear when one cannot be had.
for module in . test/k8s/tools test/k8s/coredns test/k8s/containerd; do
    cd "$root/$module"
    step "modules of $module" go mod download
done

cd "$root/test/k8s/tools"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%.*}"
done

# In images there is no C library.
GOFLAGS="$(go env GOFLAGS) -trimpath"
export CGO_ENABLED=0 GOFLAGS
for package in $(go list -f '{{.ImportPath}}' tool); do
    step "$package" go build -p 2 -ldflags "$flags" -o "$out/" "$package"
done
step "network tests of Kubernetes $version" go test -c -p 2 -vet=off -ldflags "$flags" -o "$out/e2e.test" ./e2e
step "conformance tests of ClusterNetworkPolicy" go test -c -p 2 -vet=off -ldflags "-s -w" -o "$out/cnp.test" ./cnp
step "tests of cyclonus" go test -c -p 2 -vet=off -ldflags "-s -w" -o "$out/cyclonus.test" ./cyclonus
step "programs of its pods" go build -ldflags "-s -w" -o "$out/" ./cyclonus/worker ./cyclonus/connect
policies=$(go list -m -f '{{.Dir}}' sigs.k8s.io/network-policy-api)
install -m 644 "$policies/config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml" "$out/clusternetworkpolicies.yaml"
porter=$(go list -f '{{.Dir}}' k8s.io/kubernetes/test/images/agnhost)/porter
cd "$root/test/k8s/coredns"
step "CoreDNS" go build -p 2 -ldflags "-s -w" -o "$out/" .
cd "$root/test/k8s/containerd"
mkdir -p "$out/containerd2"
version=$(go list -m -f '{{.Version}}' github.com/containerd/containerd/v2)
step "containerd $version" go build -p 2 -ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$version" -o "$out/containerd2/" tool
cd "$root"
step "pause" go build -o "$out/" ./test/k8s/pause
step "images" go run ./test/cmd/k8scluster images --porter "$porter" "$out/images.tar"
