package e2e

import (
	"context"

	"github.com/contiv/netplugin/test/testbed"
)

// outsider is a namespace of the machine outside, or, without a name, that machine itself.
type outsider struct {
	bed  *testbed.Bed
	name string
}

func (s story) beyond(name string) outsider { return outsider{s.bed, name} }

func (o outsider) inside(args ...string) []string {
	if o.name == "" {
		return args
	}
	return append([]string{"ip", "netns", "exec", o.name}, args...)
}

func (o outsider) Run(ctx context.Context, args ...string) (string, error) {
	return o.bed.Outside.Run(ctx, o.inside(args...)...)
}

func (o outsider) Start(name string, args ...string) (*testbed.Process, error) {
	return o.bed.Outside.Start(name, o.inside(args...)...)
}

func (o outsider) LogFile(program string) string { return o.bed.Outside.LogFile(program) }

func (o outsider) Probe() string { return o.bed.Nodes[0].Tool("probe") }
