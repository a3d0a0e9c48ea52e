package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// tracePath is the route that traces a packet.
const tracePath = "/api/v1/trace"

// trace asks the node of the sending endpoint to trace a packet and, if the packet goes there, the node of the
// receiver. Both endpoints must be visible to the caller.
func (a *API) trace(r *http.Request) (rest.Reply, error) {
	q := r.URL.Query()
	port, err := strconv.ParseUint(q.Get("port"), 10, 16)
	known := inet.TransportNumber(q.Get("protocol")) != 0
	if icmp := q.Get("protocol") == "icmp"; err != nil || !icmp && (port == 0 || !known) {
		return rest.Reply{}, fault.New(fault.Invalid, "port %q, protocol %q: want 1 to 65535, and tcp, udp, sctp or icmp", q.Get("port"), q.Get("protocol"))
	}
	if source := q.Get("source"); source != "" {
		if _, err := netip.ParseAddr(source); err != nil {
			return rest.Reply{}, fault.New(fault.Invalid, "source %q: want an address", source)
		}
	}
	t := contivmodel.Trace{From: q.Get("from"), To: q.Get("to"), Protocol: q.Get("protocol"), Port: int(port), Source: q.Get("source")}
	from, to, err := a.tracedEnds(r.Context(), t)
	if err != nil {
		return rest.Reply{}, err
	}
	query := url.Values{"from": {from.ID}, "to": {to}, "protocol": {t.Protocol}, "port": {strconv.Itoa(t.Port)}, "source": {t.Source}}
	for next := from.HomingHost; next != "" && len(t.Hops) < 2; {
		hop, err := a.hop(r.Context(), next, query)
		if fault.Is(err, fault.Unavailable) && len(t.Hops) > 0 { // the first node's part is answered all the same
			hop, err = hops.Hop{Node: next, Exit: hops.Silent, Note: err.Error()}, nil
		}
		if err != nil {
			return rest.Reply{}, err
		}
		t.Hops, next = append(t.Hops, hop), hop.Next
		if hop.NextTo != "" {
			query.Set("to", hop.NextTo)
			query.Set("port", strconv.Itoa(hop.NextPort))
		}
	}
	if last := len(t.Hops) - 1; last >= 0 && t.Hops[last].Exit == hops.Host {
		if t.Hops[last].To, err = a.enteredService(r.Context(), to, t); err != nil {
			return rest.Reply{}, err
		}
	}
	return rest.Reply{Body: t}, nil
}

// enteredService names the service that the host leads a packet to, as to one of another tenant; empty: none. A caller
// who does not see its tenant is told only that there is one.
func (a *API) enteredService(ctx context.Context, to string, t contivmodel.Trace) (name string, err error) {
	at, err := netip.ParseAddr(to)
	if err != nil {
		return "", nil // an endpoint
	}
	err = a.ledger.View(func(r ledger.Reader) error {
		id := master.EnteredAt(r, at, uint16(t.Port), t.Protocol)
		if id == "" {
			return nil
		}
		sees, err := auth.CallerFrom(ctx).Sees(r)
		service, tenant, _ := strings.Cut(id, ":")
		if name = "a service of another tenant"; sees(tenant) {
			name = fmt.Sprintf("service %s of tenant %s", service, tenant)
		}
		return err
	})
	return name, err
}

// tracedEnds returns the sending endpoint, and the destination: the id of an endpoint, or an address.
func (a *API) tracedEnds(ctx context.Context, t contivmodel.Trace) (from mastercfg.CfgEndpointState, to string, err error) {
	err = a.search(ctx, func(r ledger.Reader) error {
		sees, err := seesNetworks(auth.CallerFrom(ctx), r)
		if err != nil {
			return err
		}
		if from, err = lookupOneOf(r, sees, t.From); err != nil {
			return err
		}
		if address, err := netip.ParseAddr(t.To); err == nil {
			to = address.String()
			return nil
		}
		receiver, err := lookupOneOf(r, sees, t.To)
		to = receiver.ID
		return err
	})
	return from, to, err
}

// hop traces the packet on one node.
func (a *API) hop(ctx context.Context, host string, query url.Values) (hop hops.Hop, err error) {
	at, registered, err := a.agentOf(ctx, mastercfg.AgentService, host)
	if err == nil && !registered {
		err = fault.New(fault.Unavailable, "node %s is not registered", host)
	}
	if err != nil {
		return hop, err
	}
	said, err := a.nodes.get(ctx, at, "/inspect/trace?"+query.Encode(), shortAnswer)
	if err != nil {
		return hop, err
	}
	if err := json.Unmarshal(said, &hop); err != nil {
		return hop, fault.New(fault.Internal, "node %s: its trace is not understood: %w", host, err)
	}
	return hop, nil
}
