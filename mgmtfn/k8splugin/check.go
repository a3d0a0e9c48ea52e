package k8splugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniresult"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/utils/fault"
)

// check compares an attachment with the result of ADD: the addresses that the runtime was told, the interface in the
// container, the link and port on the host, the flows, and the reservation of the address. Its error names all that
// is missing. Changes by later plugins of the chain are ignored.
func (s *Server) check(ctx context.Context, c *call) error {
	ctx, cancel := context.WithTimeout(ctx, otherTime)
	defer cancel()
	unlock, err := s.locks.Lock(ctx, c.id)
	if err != nil {
		return failed(stepState, err)
	}
	defer unlock()
	r, ok := s.store.Get(c.id)
	if !ok || r.State != attachment.Ready {
		return failed(stepState, fault.New(fault.NotFound, "attachment %s is unknown", c.id))
	}
	netns, err := openForeign(c)
	if err != nil {
		return err
	}
	defer netns.Close()
	if err := cniresult.Within(r.Result, c.conf.PrevResult, c.conf.CNIVersion); err != nil {
		return failed(stepCheck, err)
	}
	missing := s.checkInterface(netns, r)
	if missing == nil {
		// Only now: for an endpoint without a port this would wait until its time limit.
		missing = s.checkEndpoint(ctx, r)
	}
	return failed(stepCheck, missing)
}

// checkInterface checks the interface from the container to the switch.
func (s *Server) checkInterface(netns *podlink.Namespace, r attachment.Record) error {
	return errors.Join(
		netns.Check(r.Link),
		podlink.CheckHostLink(r.HostLink),
		s.checkPort(r),
	)
}

func (s *Server) checkPort(r attachment.Record) error {
	if s.Ports == nil {
		return nil
	}
	for _, port := range s.Ports() {
		if port.EndpointID == r.EndpointID() {
			return comparePort(r, port)
		}
	}
	return fmt.Errorf("switch port of endpoint %s is missing", r.EndpointID())
}

func comparePort(r attachment.Record, port drivers.Port) error {
	if port.HostLink != r.HostLink {
		return fmt.Errorf("switch port of endpoint %s is %s, not %s", r.EndpointID(), port.HostLink, r.HostLink)
	}
	return nil
}

// checkEndpoint waits for the flows of the endpoint in its present state in the store, and compares its addresses
// with those of the container.
func (s *Server) checkEndpoint(ctx context.Context, r attachment.Record) error {
	attached, err := s.Datapath.Attach(ctx, r.EndpointID(), 0)
	if err != nil {
		return fmt.Errorf("flows of endpoint %s: %w", r.EndpointID(), err)
	}
	var errs []error
	for _, address := range r.Link.Addresses {
		bare := address.Addr().String()
		if attached.Endpoint.IPAddress != bare && attached.Endpoint.IPv6Address != bare {
			errs = append(errs, fmt.Errorf("address %s is no longer reserved for endpoint %s", bare, r.EndpointID()))
		}
	}
	return errors.Join(errs...)
}
