// Package e2e is Kubernetes' own tests of a network, as one program: the specs
// of SIG Network, without those of other groups.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	_ "k8s.io/kubernetes/test/e2e/common/network"
	_ "k8s.io/kubernetes/test/e2e/feature"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/utils/format"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestE2E(t *testing.T) {
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "Kubernetes e2e network suite", suite, reporter)
}

// The address family of a cluster is that of its API server's service. The
// upstream suite finds it in a package that brings every other group's specs.
var _ = ginkgo.BeforeSuite(func(ctx context.Context) {
	family, err := clusterFamily(ctx)
	framework.ExpectNoError(err)
	framework.TestContext.IPFamily = family
})

func clusterFamily(ctx context.Context) (string, error) {
	client, err := framework.LoadClientset()
	if err != nil {
		return "", err
	}
	service, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return "", fmt.Errorf("service default/kubernetes: %w", err)
	}
	if address.Is6() {
		return "ipv6", nil
	}
	return "ipv4", nil
}
