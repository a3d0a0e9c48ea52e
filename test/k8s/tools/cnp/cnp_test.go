// Package cnp is the conformance tests of ClusterNetworkPolicy, as one program.
package cnp

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	"sigs.k8s.io/network-policy-api/conformance/utils/flags"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
)

// TestConformance does what the test of the same name of the upstream module does, which its
// package keeps to itself.
func TestConformance(t *testing.T) {
	cluster, err := config.GetConfig() // of $KUBECONFIG
	if err != nil {
		t.Fatal(err)
	}
	objects, err := client.New(cluster, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha2.Install(objects.Scheme()); err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	s := suite.New(suite.Options{
		Client: objects, ClientSet: clientset, KubeConfig: *cluster, Debug: *flags.ShowDebug,
		CleanupBaseResources: *flags.CleanupBaseResources, EnableAllSupportedFeatures: true,
	})
	s.Setup(t)
	s.Run(t, tests.ConformanceTests)
}
