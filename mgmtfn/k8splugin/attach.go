package k8splugin

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// attach carries out the steps of an ADD behind the first checkpoint. When it
// fails the caller undoes them, however far they have come.
//
// Two tracks run side by side, as each waits most of its time: for the kernel
// and the switch, or for the disk, the master and the store. The master is
// asked when the checkpoint is on disk: what it gives outlives a loss of power,
// and ports do not.
//
//	PreparePort --------------------+--> name the link ------+
//	                                |                        +--> configure, bring up --> ready
//	checkpoint --> CreateEndpoint --+--> Attach (flows) -----+
func (s *Server) attach(ctx context.Context, c *call, netns *podlink.Namespace, r *attachment.Record) error {
	log := s.Log.WithField("attachment", c.id.String())
	var (
		port     drivers.Port
		prepared = make(chan struct{})
		endpoint mastercfg.CfgEndpointState
		flows    Attachment
	)
	log.Debug("add: begin")
	tracks, trackCtx := errgroup.WithContext(ctx)
	tracks.Go(func() (err error) {
		if port, err = s.preparePort(trackCtx, r.EndpointID(), netns); err != nil {
			return failed(stepDatapath, err)
		}
		close(prepared)
		log.Debug("add: name")
		return failed(stepPod, netns.Rename(port.PodLink, c.IfName))
	})
	tracks.Go(func() (err error) {
		if err := s.store.Sync(r); err != nil {
			return failed(stepState, err)
		}
		var revision int64
		if endpoint, revision, err = s.createEndpoint(trackCtx, c, r); err != nil {
			return failed(stepMaster, err)
		}
		select {
		case <-prepared:
		case <-trackCtx.Done():
			return failed(stepDatapath, trackCtx.Err()) // what ended the context counts first
		}
		log.Debug("add: flows")
		flows, err = s.Datapath.Attach(trackCtx, r.EndpointID(), revision)
		return failed(stepDatapath, err)
	})
	if err := tracks.Wait(); err != nil {
		return err
	}
	r.Stored = &attachment.Stored{Endpoint: flows.Endpoint, Network: flows.Network, VRF: flows.VRF}
	log.Debug("add: configure")
	if err := s.configure(c, netns, r, port, endpoint, flows.Network); err != nil {
		return failed(stepPod, err)
	}
	log.Debug("add: checkpoint")
	if err := s.store.Finish(r, time.Now()); err != nil {
		return failed(stepState, err)
	}
	log.Debug("add: ready")
	return nil
}

// preparePort makes a port with a fresh link in the container. A port whose
// link is not there, or has got its name already, is a leftover that no
// checkpoint knows of, such as after the loss of the state directory.
func (s *Server) preparePort(ctx context.Context, endpointID string, netns *podlink.Namespace) (drivers.Port, error) {
	port, err := s.Datapath.PreparePort(ctx, endpointID, netns.FD())
	if err != nil {
		return port, err
	}
	if fresh, err := netns.Has(port.PodLink); fresh || err != nil {
		return port, err
	}
	if err := s.Datapath.Detach(ctx, endpointID); err != nil {
		return port, fmt.Errorf("replace port %s, whose link %s is gone: %w", port.HostLink, port.PodLink, err)
	}
	return s.Datapath.PreparePort(ctx, endpointID, netns.FD())
}

// configure sets up the interface in the container and completes the record.
func (s *Server) configure(c *call, netns *podlink.Namespace, r *attachment.Record,
	port drivers.Port, endpoint mastercfg.CfgEndpointState, network mastercfg.CfgNetworkState) error {
	plan, err := planInterface(c, port, endpoint, network, s.Netdev())
	if err != nil {
		return err
	}
	if plan.link.Gateways, err = netns.Configure(plan.link); err != nil {
		return err
	}
	if plan.hostMAC, err = podlink.HardwareAddress(port.HostLink); err != nil {
		return err
	}
	r.HostLink, r.Link = port.HostLink, plan.link
	r.Result, err = plan.result(c, port)
	return err
}

// createEndpoint has the master allocate addresses. An endpoint of that name
// on another node is not ours, neither to use nor to delete.
func (s *Server) createEndpoint(ctx context.Context, c *call, r *attachment.Record) (mastercfg.CfgEndpointState, int64, error) {
	endpoint, revision, err := s.Master.CreateEndpoint(ctx, createRequest(c, r, s.HostLabel))
	if err == nil && endpoint.HomingHost != "" && endpoint.HomingHost != s.HostLabel {
		r.KeepEndpoint = true
		err = fault.New(fault.Conflict, "endpoint %s lives on host %s", r.EndpointID(), endpoint.HomingHost)
	}
	return endpoint, revision, err
}

func createRequest(c *call, r *attachment.Record, host string) mastercfg.CreateEndpointRequest {
	request := endpointRequest(r, host)
	if c.wanted.IPv4.IsValid() {
		request.ConfigEP.IPAddress = c.wanted.IPv4.String()
	}
	if c.wanted.IPv6.IsValid() {
		request.ConfigEP.IPv6Address = c.wanted.IPv6.String()
	}
	return request
}

// endpointRequest asks for the endpoint of an attachment, with any address.
func endpointRequest(r *attachment.Record, host string) mastercfg.CreateEndpointRequest {
	return mastercfg.CreateEndpointRequest{
		TenantName:   r.Tenant,
		NetworkName:  r.NetworkName,
		ServiceName:  r.Group,
		EndpointID:   r.Endpoint,
		EPCommonName: r.PodName,
		ConfigEP:     mastercfg.ConfigEP{Container: r.Endpoint, Host: host, ServiceName: r.Group},
	}
}
