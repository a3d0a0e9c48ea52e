package scenario

import (
	"context"
	"sync"

	"github.com/contiv/netplugin/test/testbed"
)

// Ports of the pods: one that the policy allows, one that it does not, and the echo.
const (
	allowedPort = "5432"
	otherPort   = "80"
	echoPort    = "7"
)

// podSpec is the place of a pod. Pods of blue and red get the same addresses.
type podSpec struct {
	name, tenant, network, group string
	node                         int // index in the bed
}

var podSpecs = []podSpec{
	{"web1", "blue", "front", "web", 0},
	{"web2", "blue", "front", "web", 1},
	{"db1", "blue", "back", "db", 1},
	{"db2", "blue", "back", "db", 2},
	{"red1", "red", "front", "", 0},
	{"red2", "red", "front", "", 2},
}

func (s *Scenario) createObjects(ctx context.Context) error {
	return s.netctlAll(ctx,
		[]string{"tenant", "create", "blue"},
		[]string{"tenant", "create", "red"},
		[]string{"network", "create", "-t", "blue", "-s", "10.1.1.0/24", "-g", "10.1.1.254", "front"},
		[]string{"network", "create", "-t", "blue", "-s", "10.1.2.0/24", "-g", "10.1.2.254", "back"},
		[]string{"network", "create", "-t", "red", "-s", "10.1.1.0/24", "-g", "10.1.1.254", "front"},
		[]string{"group", "create", "-t", "blue", "front", "web"},
		[]string{"group", "create", "-t", "blue", "back", "db"},
	)
}

// createPods creates the pods, those of one node one after the other, so that both tenants assign the same
// addresses.
func (s *Scenario) createPods(ctx context.Context) error {
	for _, spec := range podSpecs {
		if _, err := s.addPod(ctx, spec); err != nil {
			return err
		}
	}
	s.check(s.pods["web1"].IP == s.pods["red1"].IP, "two tenants use one address: web1 of blue and red1 of red have %s", s.pods["web1"].IP)
	// A repeated ADD is answered with the same address.
	again := *s.pods["web1"]
	if err := again.Attach(ctx); err != nil {
		return err
	}
	s.check(again.IP == s.pods["web1"].IP, "a repeated ADD of web1 gives %s again", again.IP)
	return nil
}

func (s *Scenario) addPod(ctx context.Context, spec podSpec) (*testbed.Pod, error) {
	pod, err := s.bed.Nodes[spec.node].AddPod(ctx, spec.name, spec.tenant, spec.network, spec.group)
	if err != nil {
		return nil, err
	}
	s.pods[spec.name] = pod
	s.timing("pod ADD", pod.Took)
	return pod, pod.Serve(ctx, "-name", spec.name, "-tcp", allowedPort+","+otherPort, "-udp", echoPort)
}

// eachPod runs f for all pods at once and returns the first error.
func (s *Scenario) eachPod(f func(podSpec, *testbed.Pod) error) error {
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, spec := range podSpecs {
		wg.Go(func() {
			if err := f(spec, s.pods[spec.name]); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	return first
}
