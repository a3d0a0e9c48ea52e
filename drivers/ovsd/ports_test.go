package ovsd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// numberOf returns the number in the name of a port's link. It is not predictable: a port that the switch ignores
// is created again with the next number.
func numberOf(t *testing.T, port drivers.Port) (number uint32) {
	t.Helper()
	if _, err := fmt.Sscanf(port.HostLink, "vvport%d", &number); err != nil {
		t.Fatalf("port %+v: %v", port, err)
	}
	return number
}

func TestAPortIsALinkARowAndANumber(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	number := numberOf(t, port)
	want := drivers.Port{EndpointID: "web.blue-1", HostLink: port.HostLink, PodLink: fmt.Sprint("vport", number), OFPort: number + 1, MTU: 1550}
	if port != want {
		t.Errorf("port %+v, want %+v", port, want)
	}
	if got := n.links(); len(got) != 2 {
		t.Errorf("links: %v", got)
	}
	for link, mtu := range map[string]string{port.PodLink: "mtu 1550", port.HostLink: "mtu 9000"} {
		if got := n.Exec("ip", "link", "show", link); !strings.Contains(got, mtu) {
			t.Errorf("%s is expected: %s", mtu, got)
		}
	}
	if got := n.column("Interface", port.HostLink, "external_ids:endpoint-id"); got != "web.blue-1" {
		t.Errorf("endpoint-id %s", got)
	}
	if got := n.column("Port", port.HostLink, "external_ids:endpoint-id"); got != "web.blue-1" {
		t.Errorf("endpoint-id %s", got)
	}
	if ports := r.Ports(); len(ports) != 1 || ports[0] != want {
		t.Errorf("ports: %+v", ports)
	}
	if again := r.add("web.blue-1"); again != want {
		t.Errorf("a second AddPort returns %+v", again)
	}
	if err := r.RemovePort(patience(t), "web.blue-1"); err != nil {
		t.Fatal(err)
	}
	if got := n.links(); len(got) != 0 {
		t.Errorf("links left: %v", got)
	}
	if got := n.Vsctl("list-ports", bridge); strings.Contains(got, "vvport") {
		t.Errorf("ports left: %s", got)
	}
	if len(r.Ports()) != 0 {
		t.Errorf("ports: %+v", r.Ports())
	}
	if err := r.RemovePort(patience(t), "web.blue-1"); err != nil {
		t.Errorf("removing an unknown port: %v", err)
	}
	if next := r.add("web.blue-1"); next.HostLink == port.HostLink {
		t.Error("a number just given back was used again")
	}
}

func TestAPortWhosePodIsGoneIsRemovedOrMadeAnew(t *testing.T) {
	n := newNode(t)
	r := n.start()
	first := r.add("web.blue-1")
	second := r.add("web.blue-2")
	n.Exec("ip", "link", "del", first.HostLink)
	n.Exec("ip", "link", "del", second.HostLink)
	if ports := r.Ports(); len(ports) != 2 {
		t.Errorf("orphans are not listed: %+v", ports)
	}
	again := r.add("web.blue-1")
	if again.HostLink == first.HostLink || again.OFPort == 0 {
		t.Errorf("made anew: %+v", again)
	}
	if err := r.RemovePort(patience(t), "web.blue-2"); err != nil {
		t.Error(err)
	}
	if ports := r.Ports(); len(ports) != 1 || ports[0] != again {
		t.Errorf("ports: %+v", ports)
	}
}

func TestFiftyConcurrentAddsGetFiftyPorts(t *testing.T) {
	n := newNode(t)
	r := n.start()
	const count = 50
	var mu sync.Mutex
	seen := map[string]bool{}
	numbers := map[uint32]bool{}
	atOnce(count, func(i int) {
		// Two calls for each endpoint.
		port, err := r.AddPort(patience(t), pipeline.VXLAN, fmt.Sprint("web.blue-", i/2), 0)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seen[port.HostLink], numbers[port.OFPort] = true, true
	})
	if len(seen) != count/2 || len(numbers) != count/2 || len(r.Ports()) != count/2 {
		t.Errorf("%d links, %d numbers, %d ports for %d endpoints", len(seen), len(numbers), len(r.Ports()), count/2)
	}
	atOnce(count/2, func(i int) {
		if err := r.RemovePort(patience(t), fmt.Sprint("web.blue-", i)); err != nil {
			t.Error(err)
		}
	})
	if got := n.links(); len(got) != 0 {
		t.Errorf("links left: %v", got)
	}
}

func TestPortsBeingMadeAreNotTakenForLostOnes(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		atOnce(40, func(i int) {
			id := fmt.Sprint("web.blue-", i)
			if _, err := r.AddPort(patience(t), pipeline.VXLAN, id, 0); err != nil {
				t.Error(err)
			}
			if err := r.RemovePort(patience(t), id); err != nil {
				t.Error(err)
			}
		})
	})
	// Each correction of the bridge removes links without a port.
	for range 10 {
		n.Vsctl("--no-wait", "set", "Bridge", bridge, "fail_mode=standalone")
		eventually(t, "fail mode is back", func() bool { return n.column("Bridge", bridge, "fail_mode") == "secure" })
	}
	all.Wait()
	if got := n.links(); len(got) != 0 || len(r.Ports()) != 0 {
		t.Errorf("left: %v, %v", got, r.Ports())
	}
}

func atOnce(count int, work func(i int)) {
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { work(i) })
	}
	all.Wait()
}

func TestNamesInUseAreSkipped(t *testing.T) {
	n := newNode(t)
	n.Exec("ip", "link", "add", "vvport1", "type", "veth", "peer", "name", "other")
	n.Exec("ip", "link", "add", "vport2", "type", "veth", "peer", "name", "other2")
	n.AddBridge("br-other")
	n.Vsctl("add-port", "br-other", "vvport3", "--", "set", "Interface", "vvport3", "type=internal")
	r := n.start()
	if port := r.add("web.blue-1"); numberOf(t, port) < 4 {
		t.Errorf("port %+v", port)
	}
}

func TestAFailedAddLeavesNothing(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	n.KillVswitchd() // numbers are not assigned now
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := r.AddPort(ctx, pipeline.VXLAN, "web.blue-1", 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
	if got := n.links(); len(got) != 0 {
		t.Errorf("links left: %v", got)
	}
	if got := n.Vsctl("--no-wait", "list-ports", bridge); strings.Contains(got, "vvport") {
		t.Errorf("ports left: %s", got)
	}
	if _, err := r.AddPort(patience(t), pipeline.VXLAN, "", 0); !fault.Is(err, fault.Invalid) {
		t.Errorf("an endpoint without id: %v", err)
	}
}

// The caller gives up while the database has been asked for the rows and has not answered.
func TestAnAddGivenUpBeforeTheDatabaseAnswersLeavesNothing(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	n.KillVswitchd() // numbers are not assigned now
	resume := n.PauseServer()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := r.AddPort(ctx, pipeline.VXLAN, "web.blue-1", 0)
		failed <- err
	}()
	<-ctx.Done()
	var err error
	select {
	case err = <-failed:
		resume()
	case <-time.After(time.Second): // it waits for the database
		resume()
		err = <-failed
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
	if got := n.Vsctl("--no-wait", "list-ports", bridge); strings.Contains(got, "vvport") {
		t.Errorf("ports left: %s", got)
	}
	if got := n.links(); len(got) != 0 {
		t.Errorf("links left: %v", got)
	}
}

func TestADriverThatStopsUndoesWhatItHasBegun(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	n.KillVswitchd()
	failed := make(chan error, 1)
	go func() {
		_, err := r.AddPort(context.Background(), pipeline.VXLAN, "web.blue-1", 0)
		failed <- err
	}()
	eventually(t, "the link is there", func() bool { return len(n.links()) == 2 })
	r.stop()
	if err := <-failed; !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
	if got := n.links(); len(got) != 0 {
		t.Errorf("links left: %v", got)
	}
	if _, err := r.AddPort(patience(t), pipeline.VXLAN, "web.blue-2", 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
}

func TestPortsSurviveTheDriver(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	r.stop()
	r = n.start()
	if again := r.add("web.blue-1"); again != port {
		t.Errorf("port %+v, was %+v", again, port)
	}
	if next := r.add("web.blue-2"); numberOf(t, next) <= numberOf(t, port) {
		t.Errorf("next port %+v", next)
	}
}

// Packets may still be sent to the old owner of a number, whichever process assigned it.
func TestANumberIsNotUsedAgainAtOnceByAnotherDriver(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.add("web.blue-1")
	old := r.add("web.blue-2")
	if err := r.RemovePort(patience(t), "web.blue-2"); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = n.start()
	if next := r.add("web.red-1"); numberOf(t, next) <= numberOf(t, old) {
		t.Errorf("next port %+v, after %+v", next, old)
	}
}

// Ports whose numbers differ by 1,024 would share meters, and so the limits of an endpoint's queries and floods.
func TestPortsShareNoMetersWhileThereAreOthers(t *testing.T) {
	n := newNode(t)
	r := n.start()
	old := r.add("old")
	r.stop()
	n.Vsctl("set", "bridge", bridge, fmt.Sprintf("external_ids:last-port-number=%d", old.OFPort-1+1023))
	r = n.start()
	if got := r.add("new"); got.OFPort <= old.OFPort+1024 || got.OFPort%1024 == old.OFPort%1024 {
		t.Errorf("beside port %d one has number %d", old.OFPort, got.OFPort)
	}
}

func TestALinkWithoutAPortIsAdoptedIfItsEndpointIsKnown(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	r.stop()
	n.Vsctl("del-port", port.HostLink)
	const ours = "192" // the group of our links
	n.Exec("ip", "link", "add", "vvport76", "group", ours, "type", "veth", "peer", "name", "half-made")
	n.Exec("ip", "link", "add", "vvport77", "type", "veth", "peer", "name", "theirs")
	r = n.start()
	if again := r.add("web.blue-1"); again != port {
		t.Errorf("port %+v, was %+v", again, port)
	}
	got := n.links()
	slices.Sort(got)
	want := []string{port.PodLink, port.HostLink, "vvport77"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("links: %v", got)
	}
}

func TestRunningPodsGetTheirPortsBackWhenTheBridgeWasLost(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	n.Vsctl("del-br", bridge)
	eventually(t, "the ports are back", func() bool {
		return len(r.Ports()) == 2 && r.Ports()[0] == a.port && r.Ports()[1] == b.port && r.Status().InSync
	})
	a.reaches(b.endpoint.IPv4.String())
}

func TestRemovePortFindsALinkThatLostItsPort(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	n.Vsctl("del-port", port.HostLink)
	if err := r.RemovePort(patience(t), "web.blue-1"); err != nil {
		t.Error(err)
	}
	if got := n.links(); len(got) != 0 {
		t.Errorf("links left: %v", got)
	}
}
