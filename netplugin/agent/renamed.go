package agent

import (
	"maps"
	"slices"

	"github.com/contiv/netplugin/utils/fault"
)

// The store names the node of each endpoint. An agent that is started with another name, as its host was renamed or
// its flag mistyped, has none of the containers that are attached here; programming that would cut all of them off.
// So while there are such containers nothing is programmed: the switch keeps what it has, and new containers are
// refused, until the agent has its former name again, or the containers are deleted.

// renamed returns an error while containers are attached that were attached under another name of the node. Later
// attachments have the present one. The caller holds the lock.
func (a *Agent) renamed() error {
	if a.started {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(a.held.attached)) {
		if former := a.held.attached[id].Endpoint.HomingHost; former != "" && former != a.cfg.HostLabel {
			return fault.New(fault.Unavailable, "the containers here, such as that of endpoint %[1]s, were attached when this node was %[2]s, and it is %[3]s now: "+
				"start netplugin with --host-label %[2]s again, or, if the node is to be %[3]s, delete its containers first", id, former, a.cfg.HostLabel)
		}
	}
	return nil
}
