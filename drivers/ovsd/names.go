package ovsd

import (
	"context"
	"net/netip"
	"strconv"
	"sync"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/netspace"
)

// The name server of a node is behind a port of each bridge:
//
//	bridge --- dns-vxlan ==== eth0 169.254.0.1, fd63:6f6e:7469:7600::1
//	           (host)         (network namespace contiv-dns-vxlan)
//
// and dns-vlan at the one with the uplinks.
//
// The namespace separates the addresses behind the port, which identify the client
// (ofnet/pipeline/names.go), from the host's addresses, rules, routes and servers. It
// has a name, so it outlives the agent: a restarted agent finds it, and the bridge sees no link come or
// go, which would cost the tunnels packets.
//
// The keeper makes what is missing and sets right what is wrong. A link or port that
// comes costs the tunnels of a userspace datapath packets, too. So where endpoints have
// ports already, on a node whose earlier agent had no name server, its link comes with
// the next endpoint's, whichever bridge that is of.
const (
	namesLinkPrefix = "dns-"
	namesInside     = "eth0"
	namesAlias      = "name server"
	// namesNumber is asked for by the port; endpoints ask for lower ones, since there is
	// a name server.
	namesNumber = lastNumber + endpointOffset + 1
)

// DefaultNamesNetNS is the namespace of the name server of a bridge.
func DefaultNamesNetNS(e pipeline.Encap) string { return "contiv-" + namesLinkName(e) }

func namesLinkName(e pipeline.Encap) string { return namesLinkPrefix + e.String() }

// namesPlace tells when the namespace is there, and when it is another one.
type namesPlace struct {
	mu   sync.Mutex
	made chan struct{} // closed when there is a namespace
	gone chan struct{} // closed and replaced when it is another one; nil: there is none yet
}

func newNamesPlace() *namesPlace { return &namesPlace{made: make(chan struct{})} }

// AwaitNames waits until the link of the name server is there. Work that is given to
// enter is done in its network namespace. When the link is another one gone is closed:
// a server that was started before is not heard any more.
func (d *Driver) AwaitNames(ctx context.Context) (enter func(work func() error) error, gone <-chan struct{}, err error) {
	p := d.names
	select {
	case <-p.made:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return func(work func() error) error { return netspace.Do(d.config.NamesNetNS, work) }, p.gone, nil
}

// AskerAt is the endpoint whose queries reach the name server with a source address.
func (d *Driver) AskerAt(a netip.Addr) (endpointID string, known bool) {
	return d.askers.find(d.db, pipeline.NamesPort(a))
}

// askers remembers which endpoints are at which ports while the database is the same.
// There are tens of thousands of questions a second, and in the database it takes the
// longer to find a port the more of them there are.
type askers struct {
	mu      sync.Mutex
	version uint64
	at      map[uint32]string
}

func (k *askers) find(db *database, port uint32) (endpointID string, known bool) {
	version := db.client.Version()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil || k.version != version {
		k.version, k.at = version, map[uint32]string{}
	}
	if endpointID, known = k.at[port]; known {
		return endpointID, true
	}
	if endpointID, known = db.endpointAt(port); known {
		k.at[port] = endpointID
	}
	return endpointID, known
}

// found takes note of the namespace; fresh tells that it is another one, or has another link.
func (p *namesPlace) found(fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.gone == nil:
		close(p.made)
	case !fresh:
		return
	default:
		close(p.gone)
	}
	p.gone = make(chan struct{})
}

// namesNumber is the OpenFlow number of the name server's port; until the switch has given it one, also while it is
// away, the number it asks for, so that flows of names stay when it comes back. 0: there is no name server, or another
// port of the bridge has the number, as an endpoint's of an agent that had none.
func (db *database) namesNumber() uint32 {
	if !db.names {
		return 0
	}
	if port, attached := db.attachedAs(db.namesName); attached && port.link.number() != 0 {
		return port.link.number()
	}
	for _, link := range db.linksAt.Rows(strconv.FormatUint(uint64(namesNumber), 10)) {
		if _, ours := db.attachedAs(link.Name); ours {
			return 0
		}
	}
	return namesNumber
}

// endpointAt finds the endpoint whose port has an OpenFlow number. The other bridge
// has such numbers, too.
func (db *database) endpointAt(port uint32) (endpointID string, known bool) {
	for _, link := range db.linksAt.Rows(strconv.FormatUint(uint64(port), 10)) {
		if _, ours := db.attachedAs(link.Name); ours && link.endpoint() != "" {
			return link.endpoint(), true
		}
	}
	return "", false
}
