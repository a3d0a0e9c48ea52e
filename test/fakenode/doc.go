// Package fakenode is a node in small, for tests of the CNI server: a cluster
// that allocates addresses and a switch that forwards packets.
//
// It is no mock. The cluster (Cluster) keeps networks and endpoints in a file,
// so they outlive a server that is killed; the switch (Switch) makes real veth
// pairs and a real Linux bridge, so containers reach each other, and everything
// it knows is in the kernel. What it cannot do: several nodes, tenants with
// overlapping subnets, policies. That is what the real switch is tested for.
//
// Tests run in namespaces of their own (Isolate), which end with them.
package fakenode

import "sync"

// Faults makes calls fail on demand. The zero value lets everything pass.
type Faults struct {
	mu    sync.Mutex
	fail  map[string]error
	watch func(call string)
}

// Names of the calls that can fail.
const (
	CreateEndpoint = "CreateEndpoint"
	DeleteEndpoint = "DeleteEndpoint"
	PreparePort    = "PreparePort"
	Attach         = "Attach"
	Detach         = "Detach"
	Ready          = "Ready"
)

// Fail makes a call fail with err until it is told nil.
func (f *Faults) Fail(call string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.fail = map[string]error{}
	}
	f.fail[call] = err
}

// Watch has every call reported: "PreparePort" before, "PreparePort done" after
// its effect.
func (f *Faults) Watch(watch func(call string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = watch
}

// enter reports a call and returns the error it is to fail with.
func (f *Faults) enter(call string) error {
	f.report(call)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail[call]
}

func (f *Faults) done(call string) { f.report(call + " done") }

func (f *Faults) report(call string) {
	f.mu.Lock()
	watch := f.watch
	f.mu.Unlock()
	if watch != nil {
		watch(call)
	}
}
