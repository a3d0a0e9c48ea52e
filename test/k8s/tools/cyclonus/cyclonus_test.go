// Package cyclonus is the default cases of cyclonus, as one program.
package cyclonus

import (
	"strings"
	"testing"

	"github.com/mattfenwick/cyclonus/pkg/cli"
	"github.com/mattfenwick/cyclonus/pkg/connectivity"
	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	"github.com/mattfenwick/cyclonus/pkg/kube"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// connect is kube.NewKubernetesForContext, for a client that may ask as often as it likes: setting
// all back between two cases takes dozens of requests.
func connect() (*kube.Kubernetes, error) {
	cluster, err := kube.NewKubernetesForContext("") // of $KUBECONFIG
	if err != nil {
		return nil, err
	}
	cluster.RestConfig.QPS = -1
	cluster.ClientSet, err = kubernetes.NewForConfig(cluster.RestConfig)
	return cluster, err
}

// mode is what the probes of a case go to. Of pods that come, or get other labels, cyclonus does not know the
// address of their services.
func mode(c *generator.TestCase) generator.ProbeMode {
	for _, step := range c.Steps {
		for _, a := range step.Actions {
			if a.CreatePod != nil || a.SetPodLabels != nil {
				return generator.ProbeModePodIP
			}
		}
	}
	return generator.ProbeModeServiceIP
}

// TestDefaultCases does what `cyclonus generate --destination-type service-ip --server-protocol TCP,UDP
// --ignore-loopback` does. By names of services a pod that may not ask for names would need minutes to find
// out, in each of dozens of probes. Those of a pod are run by cyclonus' own worker in it, all in one call, which
// the command has disabled.
func TestDefaultCases(t *testing.T) {
	cluster, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	namespaces := []string{"x", "y", "z"}
	resources, err := probe.NewDefaultResources(cluster, namespaces, []string{"a", "b", "c"}, []int{80, 81},
		[]v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP}, nil, 60, true, "registry.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	zc, err := resources.GetPod("z", "c")
	if err != nil {
		t.Fatal(err)
	}
	interpreter := connectivity.NewInterpreter(cluster, resources, &connectivity.InterpreterConfig{
		ResetClusterBeforeTestCase: true, VerifyClusterStateBeforeTestCase: true,
		KubeProbeRetries: 1, PerturbationWaitSeconds: 1, JobTimeoutSeconds: 1, BatchJobs: true, IgnoreLoopback: true,
	})
	for _, c := range generator.NewTestCaseGenerator(true, zc.IP, namespaces, nil, cli.DefaultExcludeTags).GenerateTestCases() {
		for _, step := range c.Steps {
			step.Probe.Mode = mode(c)
		}
		t.Run(strings.ReplaceAll(c.Description, "/", " or "), func(t *testing.T) {
			result := interpreter.ExecuteTestCase(c)
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for i, step := range result.Steps {
				if len(step.KubeProbes) > 1 {
					t.Logf("step %d: probed twice; the first time:\n%s", i+1, step.Comparison(0).RenderSuccessTable())
				}
				if !step.Passed(true) {
					t.Errorf("step %d: want\n%s\ngot\n%s", i+1, step.SimulatedProbe.RenderTable(), step.LastKubeProbe().RenderTable())
				}
			}
		})
	}
}
