// Package cyclonus is the default cases of cyclonus, as one program.
package cyclonus

import (
	"slices"
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

// leaked returns the results of a probe that got through although policies deny them; those of pods to themselves
// are left out.
func leaked(got, want *probe.Table) (through []string) {
	for _, key := range got.Wrapped.Keys() {
		if key.From == key.To {
			continue
		}
		may := want.Get(key.From, key.To).JobResults
		for port, result := range got.Get(key.From, key.To).JobResults {
			if result.Combined == probe.ConnectivityAllowed && may[port].Combined != probe.ConnectivityAllowed {
				through = append(through, key.From+" to "+key.To+" "+port)
			}
		}
	}
	slices.Sort(through)
	return through
}

func TestWhatPoliciesDenyIsSeenToGetThrough(t *testing.T) {
	pods := &probe.Resources{Pods: []*probe.Pod{{Namespace: "x", Name: "a"}, {Namespace: "x", Name: "b"}}}
	table := func(ab, ba, aa probe.Connectivity) *probe.Table {
		job := func(from, to string, c probe.Connectivity) *probe.JobResult {
			return &probe.JobResult{Job: &probe.Job{FromKey: from, ToKey: to, ResolvedPort: 80, Protocol: v1.ProtocolTCP}, Combined: c}
		}
		return probe.NewTableFromJobResults(pods, []*probe.JobResult{job("x/a", "x/b", ab), job("x/b", "x/a", ba), job("x/a", "x/a", aa)})
	}
	const yes, no = probe.ConnectivityAllowed, probe.ConnectivityBlocked
	for _, c := range []struct {
		got, want *probe.Table
		through   []string
	}{
		{table(yes, no, yes), table(yes, no, yes), nil},
		{table(no, no, no), table(yes, yes, yes), nil},
		{table(no, no, yes), table(no, no, no), nil},
		{table(yes, no, yes), table(no, yes, yes), []string{"x/a to x/b TCP/80"}},
	} {
		if got := leaked(c.got, c.want); !slices.Equal(got, c.through) {
			t.Errorf("%q got through, want %q:\n%s", got, c.through, c.got.RenderTable())
		}
	}
}

// TestDefaultCases does what `cyclonus generate --destination-type service-ip --server-protocol TCP,UDP
// --ignore-loopback` does, but that the cases in which pods come or get other labels go to addresses of pods. What is
// missing may come at a second probe; what is denied may not get through once. By names of services a pod that may not
// ask for names would need minutes to find out, in each of dozens of probes. Those of a pod are run by cyclonus' own
// worker in it, all in one call, which the command has disabled.
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
				if through := leaked(step.KubeProbes[0], step.SimulatedProbe); len(through) > 0 {
					t.Errorf("step %d: policies deny what got through the first time: %s", i+1, strings.Join(through, ", "))
				}
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
