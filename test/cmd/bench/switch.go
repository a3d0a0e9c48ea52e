package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	switchFlows     = 600000
	sampleEndpoints = 100 // determine how many flows an endpoint has
	auditEvery      = 5 * time.Second
	auditTime       = 30 * time.Second

	installGoal = 1.3 // relative to ovs-ofctl --bundle
	restartGoal = 6 * time.Second
	changeGoal  = 50 * time.Millisecond
	remoteGoal  = 3 // flows per remote endpoint and IP family
)

const (
	ourBridge   = "bench-ours"
	otherBridge = "bench-other"
)

// benchSwitch drives the Open vSwitch of a node with the agent's own driver, on a separate bridge, without other
// load: the daemons of the bed are stopped first.
func benchSwitch(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	return besideNothing(ctx, bed, "switch-inside")
}

// besideNothing makes this program measure on a node whose daemons were stopped.
func besideNothing(ctx context.Context, bed *testbed.Bed, what string) ([]figure, error) {
	for _, n := range bed.Nodes {
		if err := errors.Join(n.Netplugin().Terminate(), n.Netmaster().Terminate()); err != nil {
			return nil, err
		}
	}
	n := bed.Nodes[0]
	// The agent's bridge still has the tunnel port, whose name must be unique in a switch.
	if _, err := n.Run(ctx, "ovs-vsctl", "--timeout=20", "del-br", ovsd.DefaultBridge); err != nil {
		return nil, err
	}
	out, err := n.Run(ctx, n.Tool("bench"), what)
	if err != nil {
		return nil, err
	}
	var figures []figure
	if err := json.Unmarshal([]byte(out), &figures); err != nil {
		return nil, fmt.Errorf("%q: %w", out, err)
	}
	return figures, nil
}

// runSwitch measures inside the node: cold install, restart and a change during audits of many flows.
func runSwitch(ctx context.Context, out io.Writer) error {
	few := remotes(sampleEndpoints)
	d, err := startDriver(ctx, few, auditEvery)
	if err != nil {
		return err
	}
	perEndpoint := float64(d.Status().Flows)
	if err := d.replace(ctx, drivers.Change{Replace: true, Set: few[:1]}); err != nil {
		return err
	}
	perEndpoint = (perEndpoint - float64(d.Status().Flows)) / sampleEndpoints
	figures := []figure{{
		Name: "flows of a remote endpoint, per family", Value: fmt.Sprintf("%.2f", perEndpoint), Reference: "none", Ratio: "-",
		Goal: fmt.Sprintf("at most %d", remoteGoal), Met: perEndpoint <= remoteGoal,
	}}
	many := remotes(int(switchFlows / perEndpoint))
	cold, err := timed(func() error { return d.replace(ctx, drivers.Change{Replace: true, Set: many}) })
	if err != nil {
		return err
	}
	flows := d.Status().Flows
	if err := d.stop(); err != nil {
		return err
	}
	bundle, err := bundleTime(ctx)
	if err != nil {
		return err
	}
	ratio := float64(cold) / float64(bundle)
	figures = append(figures, figure{
		Name: fmt.Sprintf("cold install of %d flows", flows), Value: inMS(cold), Reference: "ovs-ofctl --bundle add-flows " + inMS(bundle),
		Ratio: fmt.Sprintf("%.2f", ratio), Goal: fmt.Sprintf("at most %.1f", installGoal), Met: ratio <= installGoal,
	})

	changes, err := countChanges(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if d, err = startDriver(ctx, many, auditEvery); err != nil {
		return err
	}
	restart := time.Since(began)
	modified, err := changes()
	if err != nil {
		return err
	}
	figures = append(figures, figure{
		Name:  fmt.Sprintf("agent restart, %d flows as they were", flows),
		Value: fmt.Sprintf("%s, %d changes", inMS(restart), modified), Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(restartGoal) + ", 0 changes", Met: restart <= restartGoal && modified == 0,
	})

	worst, err := d.worstChange(ctx)
	if err != nil {
		return err
	}
	figures = append(figures, figure{
		Name: fmt.Sprintf("one change during audits of %d flows, worst", flows), Value: inMS(worst), Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(changeGoal), Met: worst <= changeGoal,
	})
	if err := d.stop(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

// remotes returns a network and n endpoints of it on other nodes.
func remotes(n int) []pipeline.Object {
	network := pipeline.Network{ID: "net.bench", Tenant: "bench", VRF: 1, VNI: 7, Tag: 7,
		Subnet: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("10.255.255.254")}
	objects := []pipeline.Object{network}
	for i := 1; i <= n; i++ {
		a := [4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}
		objects = append(objects, pipeline.Endpoint{ID: fmt.Sprintf("net.bench-%d", i), Network: network.ID, Tenant: "bench", VRF: 1, VNI: 7, Tag: 7,
			IPv4: netip.AddrFrom4(a), MAC: [6]byte{2, 2, a[0], a[1], a[2], a[3]}, Group: 1, VTEP: netip.MustParseAddr("198.51.100.2")})
	}
	return objects
}

// driver is a running agent's driver of the bridge.
type driver struct {
	*ovsd.Driver
	cancel context.CancelFunc
	done   chan error
}

// startDriver starts it as an agent does and waits until the switch has all objects.
func startDriver(ctx context.Context, objects []pipeline.Object, audit time.Duration) (*driver, error) {
	d, err := ovsd.New(ovsd.Config{Bridge: ourBridge, Datapath: ovsd.DatapathNetdev, VTEP: netip.MustParseAddr("198.51.100.1"),
		VXLANPort: 4799, AuditInterval: audit, Log: testkit.Quiet()})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	r := &driver{d, cancel, make(chan error, 1)}
	go func() { r.done <- d.Run(running) }()
	if err := r.replace(ctx, drivers.Change{Replace: true, Set: objects}); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// replace applies a change and waits until it is in the switch.
func (d *driver) replace(ctx context.Context, c drivers.Change) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	d.Update(c)
	if err := d.Sync(ctx); err != nil {
		return fmt.Errorf("%w; driver: %+v", err, d.Status())
	}
	return nil
}

func (d *driver) stop() error {
	d.cancel()
	if err := <-d.done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// worstChange changes one endpoint repeatedly during audits.
func (d *driver) worstChange(ctx context.Context) (worst time.Duration, err error) {
	e := remotes(1)[1].(pipeline.Endpoint)
	for began, i := time.Now(), uint16(0); time.Since(began) < auditTime; i++ {
		e.Group = 2 + i%2
		t, err := timed(func() error {
			d.Update(drivers.Change{Set: []pipeline.Object{e}})
			return d.Sync(ctx, e.Key())
		})
		if err != nil {
			return 0, err
		}
		worst = max(worst, t)
	}
	return worst, nil
}

// bundleTime measures adding the same flows to another bridge by one bundle of ovs-ofctl.
func bundleTime(ctx context.Context) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "bench-flows-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "flows")
	const copyScript = `ovs-ofctl -O OpenFlow13 --no-stats --no-names dump-flows "$1" | sed -e '/reply/d' -e 's/^ *//' >"$3"
ovs-vsctl --timeout=20 add-br "$2" -- set bridge "$2" datapath_type=netdev fail_mode=secure protocols=OpenFlow13,OpenFlow14`
	if out, err := exec.CommandContext(ctx, "sh", "-ec", copyScript, "sh", ourBridge, otherBridge, file).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("flows of %s: %w: %s", ourBridge, err, out)
	}
	took, err := timed(func() error {
		out, err := exec.CommandContext(ctx, "ovs-ofctl", "-O", "OpenFlow14", "--bundle", "add-flows", otherBridge, file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("add-flows: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if out, err := exec.CommandContext(ctx, "ovs-vsctl", "--timeout=120", "del-br", otherBridge).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("del-br: %w: %s", err, out)
	}
	return took, nil
}

// lastFlow is added when changes have been counted: its event is the last one. ovs-ofctl writes the reply to its
// request to standard output, which it would buffer for a while, and events to standard error.
const (
	lastFlow      = "table=250,in_port=65000"
	lastCookie    = "0xfeed"
	monitorScript = `exec stdbuf -oL ovs-ofctl monitor "$1" watch:!initial 2>&1`
)

// countChanges counts the flows of the bridge that are added, changed or deleted from now on, as reported by the
// switch.
func countChanges(ctx context.Context) (finish func() (int, error), err error) {
	monitor := exec.CommandContext(ctx, "sh", "-c", monitorScript, "sh", ourBridge)
	out, err := monitor.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := monitor.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil { // the reply to its request
		return nil, errors.Join(err, monitor.Wait())
	}
	counted := make(chan int, 1)
	go func() {
		defer close(counted)
		for n := 0; ; {
			line, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.Contains(line, "cookie="+lastCookie):
				counted <- n
				return
			case strings.Contains(line, "event=") && !strings.Contains(line, "event=ABBREV"):
				n++
			}
		}
	}()
	return func() (int, error) {
		added := ofctl(ctx, "add-flow", ourBridge, lastFlow+",cookie="+lastCookie+",actions=drop")
		if added != nil {
			return 0, errors.Join(added, monitor.Process.Kill(), monitor.Wait())
		}
		n, ok := <-counted
		if !ok {
			return 0, fmt.Errorf("ovs-ofctl monitor %s: %w", ourBridge, monitor.Wait())
		}
		err := errors.Join(ofctl(ctx, "del-flows", ourBridge, lastFlow), monitor.Process.Signal(syscall.SIGTERM))
		_ = monitor.Wait() // it is ended by the signal
		return n, err
	}, nil
}

func ofctl(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ovs-ofctl", append([]string{"-O", "OpenFlow13"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ovs-ofctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
