package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// The answers of these routes have the revision of the commit,
// so that an agent can wait until its cache has the change.

func (a *API) allocAddress(r *http.Request, req *mastercfg.AllocAddressRequest) (rest.Reply, error) {
	auth.CallerFrom(r.Context()).SetSubject("address in " + cmp.Or(req.NetworkID, req.AddressPool))
	answer := mastercfg.AllocAddressResponse{NetworkID: req.NetworkID}
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		network, tenant := master.NetworkOfPool(tx, req.NetworkID, req.AddressPool)
		if err := cmp.Or(
			a.allocates(r.Context()),
			checkServesTenant(r.Context(), tx, tenant),
			a.change(r.Context(), tx).RoomForAddress(network, tenant),
		); err != nil {
			return err
		}
		answer.IPv4Address, err = master.AllocAddress(tx, req, a.config.ClusterMode == "swarm-mode")
		return err
	})
	return rest.Reply{Body: answer, Revision: rev}, err
}

func (a *API) releaseAddress(r *http.Request, req *mastercfg.ReleaseAddressRequest) (rest.Reply, error) {
	auth.CallerFrom(r.Context()).SetSubject("address " + req.IPv4Address + " in " + req.NetworkID)
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		_, tenant := master.NetworkOfPool(tx, req.NetworkID, "")
		if err := cmp.Or(a.allocates(r.Context()), checkServesTenant(r.Context(), tx, tenant)); err != nil {
			return err
		}
		return master.ReleaseAddress(tx, req)
	})
	return rest.Reply{Body: mastercfg.ReleaseAddressResponse{Status: "success"}, Revision: rev}, err
}

func (a *API) createEndpoint(r *http.Request, req *mastercfg.CreateEndpointRequest) (rest.Reply, error) {
	noteEndpoint(r, cmp.Or(req.ConfigEP.Container, req.ConfigEP.Host), req.TenantName, req.NetworkName) // EndpointID does not matter for a new endpoint
	var answer mastercfg.CreateEndpointResponse
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if err := cmp.Or(
			checkIsHost(r.Context(), req.ConfigEP.Host),
			checkServesTenant(r.Context(), tx, req.TenantName),
			a.labels(r.Context(), req.Labels),
			a.checkPlacement(r.Context(), tx, req),
			a.change(r.Context(), tx).RoomForEndpoint(req),
		); err != nil {
			return err
		}
		if answer.EndpointConfig, err = a.cooldown.CreateEndpoint(tx, req); err != nil {
			return err
		}
		return checkIsHost(r.Context(), answer.EndpointConfig.HomingHost) // it may have existed on another host
	})
	if err = a.tellPod(req, err); err == nil {
		a.cooldown.Given(&answer.EndpointConfig)
	}
	return rest.Reply{Body: answer, Revision: rev}, err
}

func (a *API) deleteEndpoint(r *http.Request, req *mastercfg.DeleteEndpointRequest) (rest.Reply, error) {
	noteEndpoint(r, req.EndpointID, req.TenantName, req.NetworkName)
	var answer mastercfg.DeleteEndpointResponse
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		id := endpointNamed(tx, req)
		if err := cmp.Or(
			mayRelease(r.Context(), tx, req.TenantName, id),
			isOfNetwork(tx, id, mastercfg.NetworkID(req.TenantName, req.NetworkName)),
			isOfHost(tx, id, req.Host),
		); err != nil {
			return err
		}
		answer.EndpointConfig, err = master.DeleteEndpoint(tx, id)
		return err
	})
	if err == nil {
		a.cooldown.Freed(&answer.EndpointConfig)
	}
	return rest.Reply{Body: answer, Revision: rev}, err
}

// noteEndpoint sets the endpoint of a request for the audit log.
func noteEndpoint(r *http.Request, id, tenant, network string) {
	caller := auth.CallerFrom(r.Context())
	caller.SetSubject(fmt.Sprintf("endpoint %s in network %s:%s", id, tenant, network))
	caller.SetTenant(tenant)
}

// endpointNamed returns the id of the endpoint that a request names:
// by its container, or by its host if it was created without one.
func endpointNamed(r ledger.Reader, req *mastercfg.DeleteEndpointRequest) string {
	networkID := mastercfg.NetworkID(req.TenantName, req.NetworkName)
	id := mastercfg.EndpointID(networkID, req.EndpointID)
	if _, known := r.Get(mastercfg.EndpointPrefix + id); known {
		return id
	}
	native := mastercfg.NativeEndpointID(req.EndpointID)
	ep, err := ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+native)
	if err == nil && ep.NetID == networkID {
		return native
	}
	return id
}

// isOfNetwork returns fault.NotFound if the endpoint is in another network than the one named, also of another tenant:
// names may contain the separators of ids. The request to create it was refused then, but agents clean up after that.
func isOfNetwork(r ledger.Reader, id, network string) error {
	ep, err := ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+id)
	if err == nil && ep.NetID != network {
		return fault.New(fault.NotFound, "network %s has no endpoint %s", network, id)
	}
	return nil
}

// isOfHost returns fault.NotFound if the endpoint belongs to another host than the one named: an agent whose
// request was not answered does not know whether it would have received the endpoint of another host.
func isOfHost(r ledger.Reader, id, host string) error {
	if host == "" {
		return nil
	}
	ep, err := ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+id)
	if err == nil && ep.HomingHost != "" && ep.HomingHost != host {
		return fault.New(fault.NotFound, "host %s has no endpoint %s", host, id)
	}
	return nil
}

// updateEndpoint handles the start or end of a container, which makes
// it a provider of services or ends that. Other events have no effect.
func (a *API) updateEndpoint(r *http.Request, req *mastercfg.UpdateEndpointRequest) (rest.Reply, error) {
	if (req.Event == "start" || req.Event == "die") && req.ContainerID == "" {
		return rest.Reply{}, fault.New(fault.Invalid, "invalid ProviderID %q: event %s names no container", req.ContainerID, req.Event).
			WithField("ContainerID")
	}
	noteEndpoint(r, cmp.Or(req.EndpointID, req.ContainerID), req.Tenant, req.Network)
	known := true
	var rev int64
	var err error
	switch req.Event {
	case "start":
		rev, err = a.ledger.Update(r.Context(), func(tx *ledger.Tx) error { return a.startContainer(r.Context(), tx, req) })
	case "die":
		rev, err = a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
			known, err = a.stopContainer(r.Context(), tx, req)
			return err
		})
	}
	if !known {
		return rest.Reply{Revision: rev}, err // null
	}
	return rest.Reply{Body: mastercfg.UpdateEndpointResponse{IPAddress: req.IPAddress}, Revision: rev}, err
}

func (a *API) startContainer(ctx context.Context, tx *ledger.Tx, req *mastercfg.UpdateEndpointRequest) error {
	network, err := networkNamed(tx, req.Tenant, req.Network)
	if err != nil {
		return err
	}
	networkID := mastercfg.NetworkID(req.Tenant, network)
	id := mastercfg.EndpointID(networkID, req.EndpointID)
	if err := cmp.Or(
		checkServesTenant(ctx, tx, req.Tenant),
		a.containers(ctx),
		speaksForEndpoint(ctx, tx, id),
		isOfNetwork(tx, id, networkID),
	); err != nil {
		return err
	}
	return master.StartContainer(tx, id, req)
}

// stopContainer reports whether an endpoint had the container. After a refusal that is not known: true.
func (a *API) stopContainer(ctx context.Context, tx *ledger.Tx, req *mastercfg.UpdateEndpointRequest) (known bool, err error) {
	host, err := speaksForContainer(ctx, tx, req.ContainerID)
	if err := cmp.Or(err, a.containers(ctx)); err != nil {
		return true, err
	}
	return master.StopContainer(tx, req.ContainerID, host)
}

// networkNamed returns the network with this name, or the network of the group with this name.
func networkNamed(r ledger.Reader, tenant, name string) (string, error) {
	key := tenant + ":" + name
	if master.Exists(r, "network", key) {
		return name, nil
	}
	group, err := master.Get[contivmodel.EndpointGroup](r, key, fault.New(fault.MissingReference, "key not found: network or group %s", key))
	if err != nil {
		return "", err
	}
	return group.NetworkName, nil
}
