package ovsd

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// ovs-vswitchd may be too busy to answer, or not have made its control socket yet.
func TestWhatIsKnownOfSizesStaysUntilThereIsAnAnswer(t *testing.T) {
	h := &harness{t: t, inbox: newInbox(), ports: noPorts{}, compiler: ruleCompiler{}}
	p := h.programmer()
	p.underlayMTU = func() (int, error) { return 1450, nil }
	p.sw, p.loaded = newFakeSwitch(), true
	questions := 0
	for _, step := range []struct {
		why   string
		again bool // the connection is a new one
		can   bool
		err   error
		mtu   int
		asked int
	}{
		{"no answer yet", true, true, errors.New("too busy"), 0, 1},
		{"none either", false, true, errors.New("too busy"), 0, 2},
		{"it can", false, true, nil, 1450, 3},
		{"it is not asked without need", false, false, nil, 1450, 3},
		{"no answer of the next", true, false, errors.New("no control socket"), 1450, 4},
		{"it cannot", false, false, nil, 0, 5},
		{"nor later", false, true, nil, 0, 5},
		{"another can", true, true, nil, 1450, 6},
	} {
		p.comparesSizes = func(context.Context) (bool, error) {
			questions++
			return step.can && step.err == nil, step.err
		}
		if !step.again {
			p.lookAtMTU(t.Context())
			if p.asksMTU {
				p.takeMTU(<-p.underlays)
			}
		} else if err := p.askAbilities(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.can.mtu != step.mtu || questions != step.asked {
			t.Errorf("%s: MTU %d, asked %d times; want %d, %d", step.why, p.can.mtu, questions, step.mtu, step.asked)
		}
	}
}

// The kernel may take long to tell of links: nobody waits for that but who asks.
func TestChangesDoNotWaitForTheMTUOfTheUnderlay(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	h := &harness{t: t, inbox: newInbox(), connections: make(chan flowSwitch), chunk: defaultChunk, audit: time.Millisecond, ports: noPorts{}, compiler: ruleCompiler{}}
	p := h.programmer()
	questions := 0
	p.underlayMTU = func() (int, error) {
		switch questions++; questions {
		case 1: // of the new connection
			return 1450, nil
		case 2:
			close(asked)
		}
		<-answer
		return 1400, nil
	}
	p.comparesSizes = func(context.Context) (bool, error) { return true, nil }
	mtus := make(chan int, 100)
	p.newCompiler = func(_ fixedPorts, can abilities) compiler {
		mtus <- can.mtu
		return h.compiler
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = p.run(ctx) })
	tell := sync.OnceFunc(func() { close(answer) })
	defer tell()
	h.inbox.put(drivers.Change{Replace: true})
	h.connect(newFakeSwitch())
	<-asked
	h.inbox.put(drivers.Change{Set: []pipeline.Object{rule(1, 50)}})
	if err := h.sync(rule(1, 50).Key()); err != nil {
		t.Error(err)
	}
	tell()
	for got := range mtus {
		if got == 1400 {
			return
		}
	}
}

// control makes a control socket at which answer is told; without one nobody listens any more.
func control(t *testing.T, path, answer string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if answer == "" {
		l.SetUnlinkOnClose(false)
		l.Close()
		return
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var request struct{ Method string }
			if err := json.NewDecoder(conn).Decode(&request); err != nil || request.Method != "dpif/show-dp-features" {
				t.Errorf("request %+v, error %v", request, err)
			}
			_, _ = conn.Write([]byte(answer)) // who asks may be gone
			conn.Close()
		}
	}()
}

func TestTheDatapathIsAskedOverTheControlSocket(t *testing.T) {
	const yes, no = `{"id":0,"error":null,"result":"Masked set action: Yes\nCheck pkt length action: Yes\n"}`, `{"id":0,"error":null,"result":"Check pkt length action: No\n"}`
	for name, c := range map[string]struct {
		answers map[string]string // by socket
		can     bool
		fails   bool
	}{
		"yes":                     {map[string]string{"1": yes}, true, false},
		"no":                      {map[string]string{"1": no}, false, false},
		"one is left from before": {map[string]string{"1": "", "2": yes}, true, false},
		"it runs no more":         {map[string]string{"1": ""}, false, true},
		"it has none yet":         {nil, false, true},
		"no such bridge":          {map[string]string{"1": `{"id":0,"error":"no such bridge","result":null}`}, false, true},
		"garbage":                 {map[string]string{"1": "garbage"}, false, true},
		"half an answer":          {map[string]string{"1": yes[:40]}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Driver{config: Config{RunDir: t.TempDir(), Bridge: "contivBridge"}, log: logrus.NewEntry(logrus.New())}
			d.status.Datapath = DatapathNetdev
			for number, answer := range c.answers {
				control(t, filepath.Join(d.config.RunDir, "ovs-vswitchd."+number+".ctl"), answer)
			}
			if can, err := d.comparesSizes(t.Context()); can != c.can || (err != nil) != c.fails {
				t.Errorf("%v, error %v; want %v, an error: %v", can, err, c.can, c.fails)
			}
		})
	}
}

func TestSizesAreNotComparedWhereNobodyWantsIt(t *testing.T) {
	d := &Driver{config: Config{RunDir: t.TempDir(), Bridge: "contivBridge", NoSizeChecks: true}, log: logrus.NewEntry(logrus.New())}
	if can, err := d.comparesSizes(t.Context()); can || err != nil {
		t.Errorf("%v, error %v; want no, without a question", can, err)
	}
}

func TestEarlyKernelsTakeManySegmentsForOnePacket(t *testing.T) {
	for release, want := range map[string]bool{
		"4.18.0-553.el8_10.x86_64": false,
		"5.4.0-216-generic":        false,
		"5.7.19\n":                 false,
		"5.8.0\n":                  true,
		"5.10.0-35-amd64":          true,
		"6.1.0-37-amd64\n":         true,
		"unknown":                  false,
	} {
		if got := comparesSegments(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
