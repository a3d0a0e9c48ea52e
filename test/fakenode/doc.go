// Package fakenode is a small node for tests of the CNI server: a cluster that allocates addresses and a switch
// that forwards packets.
//
// It is no mock. The cluster (Cluster) stores networks and endpoints in a file, so they outlive a killed server;
// the switch (Switch) creates real veth pairs and a real Linux bridge, so containers reach each other, and its
// state is in the kernel. It does not support several nodes, tenants with overlapping subnets, and policies; these
// are tested with the real switch.
//
// Tests run in namespaces of their own (Isolate), which end with them.
package fakenode

import "sync"

// Faults makes calls fail on demand. With the zero value all calls succeed.
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

// Fail makes a call fail with err from now on; nil: it succeeds again.
func (f *Faults) Fail(call string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.fail = map[string]error{}
	}
	f.fail[call] = err
}

// Watch sets a function that is called with the name of each call: "PreparePort" before it, "PreparePort done"
// after it took effect.
func (f *Faults) Watch(watch func(call string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = watch
}

// enter reports a call and returns the error set for it, if any.
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
