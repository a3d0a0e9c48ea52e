package k8splugin

import (
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
)

// isGone reports whether the container of an attachment is gone without a DEL: its network namespace and its link
// do not exist. A missing link alone is no proof: a privileged program in the pod can delete the link, and
// programs on the host can rename or move the host's end. The pod then still runs, and its address must not be
// assigned to another. If the namespace is that of a process (/proc/<pid>/ns/net) that this server has never seen,
// a missing process is no proof either.
func isGone(r *attachment.Record) (bool, error) {
	there, err := podlink.Exists(r.HostLink, r.EndpointID())
	if there || err != nil {
		return false, err
	}
	if podlink.IsOfProcess(r.Netns) && !r.NetnsSeen {
		return false, nil
	}
	return podlink.Gone(r.Netns, r.NetnsID)
}

// wasLostByFormer reports whether a container was attached under another name of the node and has no link any more,
// as after a boot in which the machine was renamed. It does not forward, and to hold it would keep the datapath from
// serving the node under its present name.
func (c *Config) wasLostByFormer(r *attachment.Record) (bool, error) {
	if r.Stored == nil || r.Stored.Endpoint.HomingHost == "" || r.Stored.Endpoint.HomingHost == c.HostLabel {
		return false, nil
	}
	there, err := podlink.Exists(r.HostLink, r.EndpointID())
	return !there, err
}
