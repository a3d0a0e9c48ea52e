#!/bin/sh
# Builds what a Kubernetes cluster for tests is made of into the folder named as
# argument: its components, its own network tests and those of
# ClusterNetworkPolicy with its kind, CoreDNS, and the archive of
# the images that both need. The first time takes about ten minutes.
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)

cd "$root/test/k8s/tools"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%.*}"
done

# In images there is no C library.
export CGO_ENABLED=0 GOFLAGS=-trimpath
for package in $(go list -f '{{.ImportPath}}' tool); do
    echo "building $package"
    go build -p 2 -ldflags "$flags" -o "$out/" "$package"
done
echo "building the network tests of Kubernetes $version"
go test -c -p 2 -vet=off -ldflags "$flags" -o "$out/e2e.test" ./e2e
echo "building the conformance tests of ClusterNetworkPolicy"
go test -c -p 2 -vet=off -ldflags "-s -w" -o "$out/cnp.test" ./cnp
policies=$(go list -m -f '{{.Dir}}' sigs.k8s.io/network-policy-api)
install -m 644 "$policies/config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml" "$out/clusternetworkpolicies.yaml"
porter=$(go list -f '{{.Dir}}' k8s.io/kubernetes/test/images/agnhost)/porter
cd "$root/test/k8s/coredns"
echo "building CoreDNS"
go build -p 2 -ldflags "-s -w" -o "$out/" .
cd "$root/test/k8s/containerd"
echo "building containerd 2"
mkdir -p "$out/containerd2"
version=$(go list -m -f '{{.Version}}' github.com/containerd/containerd/v2)
go build -p 2 -ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$version" -o "$out/containerd2/" tool
cd "$root"
go build -o "$out/" ./test/k8s/pause
echo "making images"
go run ./test/cmd/k8scluster images --porter "$porter" "$out/images.tar"
