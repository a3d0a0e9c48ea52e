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
// and dns-vlan at the bridge with the uplinks.
//
// The namespace separates the addresses behind the port, which identify the client
// (ofnet/pipeline/names.go), from the host's addresses, rules, routes and servers. It
// has a name, so it stays when the agent ends: a restarted agent finds it, and no link is added or
// removed, which would lose packets of tunnels.
//
// The keeper reconciles link and port. On a userspace datapath, a new link or port loses
// packets of tunnels, too. So on a node whose earlier agent had no name server and which has endpoint
// ports, the link is made together with the next endpoint port, of whichever bridge.
const (
	namesLinkPrefix = "dns-"
	namesInside     = "eth0"
	namesAlias      = "name server"
	// namesNumber is the OpenFlow number that the port requests. Endpoints request lower ones since there is
	// a name server.
	namesNumber = lastNumber + endpointOffset + 1
)

// DefaultNamesNetNS returns the name of the network namespace of the name server of a bridge.
func DefaultNamesNetNS(e pipeline.Encap) string { return "contiv-" + namesLinkName(e) }

func namesLinkName(e pipeline.Encap) string { return namesLinkPrefix + e.String() }

// namesPlace signals when the namespace exists, and when it is replaced.
type namesPlace struct {
	mu   sync.Mutex
	made chan struct{} // closed when there is a namespace
	gone chan struct{} // closed and replaced when the namespace is replaced; nil: there is none yet
}

func newNamesPlace() *namesPlace { return &namesPlace{made: make(chan struct{})} }

// AwaitNames waits until the link of the name server exists. enter runs work in the name server's
// network namespace. gone is closed when the link is replaced:
// a server that was started before cannot receive queries any more.
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

// AskerAt returns the endpoint whose DNS queries have this source address at the name server.
func (d *Driver) AskerAt(a netip.Addr) (endpointID string, known bool) {
	return d.askers.find(d.db, pipeline.NamesPort(a))
}

// askers caches the endpoints of ports while the database is unchanged.
// There are tens of thousands of queries a second, and the time of a lookup in the database grows with
// the number of ports.
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

// found signals that the namespace exists; fresh: it, or its link, was replaced.
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

// namesNumber returns the OpenFlow number of the name server's port. While it has none, it is the number that the
// port requests, so that the flows stay the same when the port is recreated. 0: the node has no name server, or
// another port of the bridge has the number, such as an endpoint port made by an agent without a name server.
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

// endpointAt finds the endpoint whose port of our bridge has an OpenFlow number. Other bridges
// use the same numbers.
func (db *database) endpointAt(port uint32) (endpointID string, known bool) {
	for _, link := range db.linksAt.Rows(strconv.FormatUint(uint64(port), 10)) {
		if _, ours := db.attachedAs(link.Name); ours && link.endpoint() != "" {
			return link.endpoint(), true
		}
	}
	return "", false
}
