package k8splugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniresult"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/utils/fault"
)

// add attaches a container and returns the CNI result, or returns the stored result of an earlier ADD.
func (s *Server) add(ctx context.Context, c *call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Add)
	defer cancel()
	netns, err := openForeign(c)
	if err != nil {
		return nil, err
	}
	defer netns.Close()
	unlock, err := s.locks.Lock(ctx, c.id)
	if err != nil {
		return nil, failed(stepState, err)
	}
	defer unlock()

	wanted, err := c.digest(netns.ID())
	if err != nil {
		return nil, err
	}
	stored, err := s.settle(ctx, c, netns, wanted)
	if err != nil || stored != nil {
		return stored, err
	}
	r, err := s.newRecord(ctx, c, netns, wanted)
	if err != nil {
		return nil, err
	}
	if err := s.attach(ctx, c, netns, &r); err != nil {
		if left := s.release(ctx, r); left != nil {
			s.Log.WithField("attachment", c.id.String()).WithError(left).Warn("failed ADD is not undone yet, going on in the background")
		}
		return nil, err
	}
	s.tellAttached(&r)
	return cniresult.Answer(r.Result, c.conf.PrevResult, c.conf.CNIVersion)
}

// openForeign opens the container's network namespace. It refuses the agent's own namespace: moving a link there
// would turn the host into the container.
func openForeign(c *call) (*podlink.Namespace, error) {
	netns, err := c.openNetns()
	if err != nil {
		return nil, failed(stepNetns, err)
	}
	own, err := netns.IsOwn()
	if err == nil && own {
		err = types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_NETNS %s is the host's network namespace", c.Netns), "")
	}
	if err != nil {
		return nil, failed(stepNetns, errors.Join(err, netns.Close()))
	}
	return netns, nil
}

// settle returns the stored answer if this ADD has been carried out before.
// Otherwise it undoes earlier attachments with the same key, interface or
// address.
func (s *Server) settle(ctx context.Context, c *call, netns *podlink.Namespace, wanted string) ([]byte, error) {
	queued := s.pending.Has(c.id) // a DEL queued before the server started has precedence
	if r, ok := s.store.Get(c.id); ok {
		if !queued && r.State == attachment.Ready && r.Digest == wanted {
			if err := s.awaitReady(ctx); err != nil { // until then the ports of the switch are unknown
				return nil, err
			}
			if s.checkInterface(netns, r) == nil {
				return cniresult.Answer(r.Result, c.conf.PrevResult, c.conf.CNIVersion)
			}
		}
		if err := s.release(ctx, r); err != nil {
			return nil, fmt.Errorf("replace what an earlier ADD left: %w", err)
		}
	}
	if queued {
		if err := s.pending.Done(c.id); err != nil {
			return nil, failed(stepState, err)
		}
	}
	return nil, s.clearWay(ctx, c, netns)
}

// clearWay undoes attachments of other containers to the same interface of the same namespace. Those containers
// are gone: otherwise this container would not have been given the identity of the namespace. The same path proves
// less, as two runtimes may have it for two namespaces, and that of a process for as many as there are processes of
// its id in turn: what was attached there is undone if its namespace has ended.
func (s *Server) clearWay(ctx context.Context, c *call, netns *podlink.Namespace) error {
	return s.replace(ctx, c.IfName+" of "+c.Netns, func(r *attachment.Record) bool {
		return r.IfName == c.IfName && r.ContainerID != c.ContainerID && (r.NetnsID == netns.ID() || r.Netns == c.Netns && hasEnded(r))
	})
}

// hasEnded reports whether an attachment has got a link, and that does not lead to an existing namespace. Unlike isGone it
// does not look at the path.
func hasEnded(r *attachment.Record) bool {
	if r.HostLink == "" {
		return false
	}
	leads, err := podlink.Leads(r.HostLink, r.EndpointID())
	return !leads && err == nil
}

// clearAddress undoes attachments of earlier sandboxes of the pod, if the ADD requests an address. Those sandboxes
// are dead, but still hold the address if the runtime lost them before it could delete them.
func (s *Server) clearAddress(ctx context.Context, c *call) error {
	uid := c.args[netconf.PodUID]
	if uid == "" || !c.wanted.IPv4.IsValid() && !c.wanted.IPv6.IsValid() {
		return nil
	}
	return s.replace(ctx, "the address of pod "+uid, func(r *attachment.Record) bool {
		return r.IfName == c.IfName && r.ContainerID != c.ContainerID && r.PodUID == uid &&
			r.PodNamespace == c.args[netconf.PodNamespace] && r.PodName == c.args[netconf.PodName]
	})
}

// replace undoes attachments of removed containers that conflict with the caller's.
func (s *Server) replace(ctx context.Context, what string, inWay func(*attachment.Record) bool) error {
	for _, r := range s.store.Select(inWay) {
		unlock, busy := s.locks.Try(r.Attachment())
		if busy != nil {
			return failed(stepState, fault.New(fault.Conflict, "%s uses %s, too, and is being worked on", r.Attachment(), what))
		}
		var err error
		if now, still := s.store.Get(r.Attachment()); still && inWay(&now) {
			err = s.release(ctx, now)
		}
		unlock()
		if err != nil {
			return fmt.Errorf("replace %s, which used %s before: %w", r.Attachment(), what, err)
		}
	}
	return nil
}

// newRecord waits for the datapath, determines the container's network and writes the first checkpoint.
func (s *Server) newRecord(ctx context.Context, c *call, netns *podlink.Namespace, digest string) (attachment.Record, error) {
	if err := s.awaitReady(ctx); err != nil {
		return attachment.Record{}, err
	}
	where, err := s.Labels.Identify(ctx, c.args, c.conf)
	if err != nil {
		return attachment.Record{}, failed(stepLabels, err)
	}
	if !c.wanted.IPv4.IsValid() {
		c.wanted.IPv4 = where.IPv4
	}
	if !c.wanted.IPv6.IsValid() {
		c.wanted.IPv6 = where.IPv6
	}
	if err := s.clearAddress(ctx, c); err != nil {
		return attachment.Record{}, err
	}
	var selected map[string]string // under Kubernetes, services select by labels of pods
	if s.Mode == CNI {
		if selected, err = labels.Container(c.args, c.conf); err != nil {
			return attachment.Record{}, failed(stepLabels, err)
		}
	}
	endpoint, err := c.endpoint(s.Mode)
	if err != nil {
		return attachment.Record{}, err
	}
	r := attachment.Record{
		ContainerID:  c.ContainerID,
		IfName:       c.IfName,
		Network:      c.conf.Name,
		Netns:        c.Netns,
		NetnsID:      netns.ID(),
		NetnsSeen:    netns.Seen(c.Netns),
		Digest:       digest,
		PodNamespace: c.args[netconf.PodNamespace],
		PodName:      c.args[netconf.PodName],
		PodUID:       c.args[netconf.PodUID],
		PlacedUID:    where.PodUID,
		Tenant:       where.Tenant,
		NetworkName:  where.Network,
		Group:        where.Group,
		Labels:       selected,
		Endpoint:     endpoint,
	}
	if c.IfName == firstInterface { // replies leave by the first interface
		r.HostPorts = where.HostPorts
	}
	// The alias of the link is limited to this length, and netmaster would refuse it only while the link is made.
	if err := limits.Text("endpoint id", r.EndpointID(), limits.EndpointID); err != nil {
		return attachment.Record{}, failed(stepRequest, err)
	}
	unlock, err := s.names.Lock(ctx, r.EndpointID()) // waits until an endpoint with this id that is being deleted is gone
	if err != nil {
		return attachment.Record{}, failed(stepState, err)
	}
	defer unlock()
	err = s.begin(&r) // sets fields of r
	return r, err
}
