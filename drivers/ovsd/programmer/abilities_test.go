package programmer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// ovs-vswitchd may be too busy to answer, or not have created its control socket yet.
func TestWhatIsKnownOfSizesStaysUntilThereIsAnAnswer(t *testing.T) {
	h := &harness{t: t, inbox: newInbox(), ports: noPorts{}, compiler: ruleCompiler{}}
	p := h.programmer()
	p.config.UnderlayMTU = func() (int, error) { return 1450, nil }
	p.conn.sw, p.conn.loaded = newFakeSwitch(), true
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
		p.config.ComparesSizes = func(context.Context) (bool, error) {
			questions++
			return step.can && step.err == nil, step.err
		}
		if !step.again {
			p.readMTU(t.Context())
			if p.underlay.asked {
				p.applyMTU(<-p.underlay.answers)
			}
		} else if err := p.detectAbilities(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.can.MTU != step.mtu || questions != step.asked {
			t.Errorf("%s: MTU %d, asked %d times; want %d, %d", step.why, p.can.MTU, questions, step.mtu, step.asked)
		}
	}
}

// The kernel may take long to report links: only the request for them waits.
func TestChangesDoNotWaitForTheMTUOfTheUnderlay(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	h := &harness{t: t, inbox: newInbox(), connections: make(chan Switch), chunk: defaultChunk, audit: time.Millisecond, ports: noPorts{}, compiler: ruleCompiler{}}
	p := h.programmer()
	questions := 0
	p.config.UnderlayMTU = func() (int, error) {
		switch questions++; questions {
		case 1: // of the new connection
			return 1450, nil
		case 2:
			close(asked)
		}
		<-answer
		return 1400, nil
	}
	p.config.ComparesSizes = func(context.Context) (bool, error) { return true, nil }
	mtus := make(chan int, 100)
	p.config.Compiler = func(_ FixedPorts, can Abilities) Compiler {
		mtus <- can.MTU
		return h.compiler
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = p.Run(ctx) })
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
