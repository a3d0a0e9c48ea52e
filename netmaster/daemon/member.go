package daemon

import (
	"context"
	"time"

	"github.com/contiv/netplugin/objdb/embedded"
)

// member is the embedded store, if there is one; without, it does nothing.
type member struct{ server *embedded.Server }

// memberStart bounds waiting for the other members: the daemon serves
// meanwhile, and does as with any store that is away.
const memberStart = 5 * time.Second

func (d *Daemon) startMember(ctx context.Context) (member, error) {
	if d.cfg.Embedded == nil {
		return member{}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, memberStart)
	defer cancel()
	server, err := embedded.Start(waiting, *d.cfg.Embedded)
	return member{server}, err
}

// Err carries the error that ended the member.
func (m member) Err() <-chan error {
	if m.server == nil {
		return nil
	}
	return m.server.Err()
}

// Stop leaves the cluster of members to the others.
func (m member) Stop() error {
	if m.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), memberStopTime)
	defer cancel()
	return m.server.Stop(ctx)
}
