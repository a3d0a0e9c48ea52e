package k8splugin

import (
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
)

// isGone tells whether the container of an attachment is gone though nobody has said so: its network namespace is, and
// the link with it. A link alone says nothing: a program that may change the interfaces of its pod may delete its own, and others
// may rename or move the switch's end. The pod lives on, Kubernetes sends to its address, and nobody else may have
// that. Nor does the end of a process say anything that was never seen here.
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
