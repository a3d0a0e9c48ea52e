package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/netmaster/identity"
)

// caller is the node at the other end of a connection.
type caller struct {
	keyholder
	ends    time.Time // expiry of the certificate
	from    net.Addr
	cut     func() // closes the connection
	budget  *budget
	streams streamCounts
}

// keyholder is the identity of a certificate: of several keys with one name, at most one is the node's.
type keyholder struct{ host, key string }

// AuthType implements credentials.AuthInfo.
func (*caller) AuthType() string { return "node" }

// caller returns the node that makes a call, and charges its budget; it fails if it is not a node any more.
func (g *Gate) caller(ctx context.Context) (*caller, error) {
	call, _ := grpc.Method(ctx)
	c, err := g.member(ctx, call)
	if err != nil {
		return nil, err
	}
	return c, c.budget.spend(ctx)
}

// member returns the node that makes a call; it fails if it is not a node any more, and audits that.
func (g *Gate) member(ctx context.Context, call string) (*caller, error) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return nil, unauthenticated("nobody is known to call")
	}
	c, ok := p.AuthInfo.(*caller)
	if !ok {
		return nil, unauthenticated("no certificate was shown")
	}
	err := g.checkStillJoined(c)
	if status.Code(err) == codes.PermissionDenied {
		g.writeDown(c, call, "", status.Convert(err).Message())
	}
	return c, err
}

// checkStillJoined returns an error if the caller is not a joined node any more.
func (g *Gate) checkStillJoined(c *caller) error {
	switch {
	case !time.Now().Before(c.ends):
		return unauthenticated("the certificate of node %s has ended", c.host)
	case !g.mirror.Synced():
		return unavailable("this netmaster does not know the state yet")
	case !g.index.holdsKey(c.host, c.key):
		return denied("node %s has not joined, or was removed, or its name belongs to another key", c.host)
	}
	return nil
}

// checkMayWatch returns an error if the caller may not receive events.
func (g *Gate) checkMayWatch(c *caller) error {
	if err := g.checkStillJoined(c); err != nil {
		return err
	}
	if !g.cfg.DB.Connected() {
		return unavailable("this netmaster does not hear the store")
	}
	return nil
}

// callers are the connections of nodes.
type callers struct {
	limits Limits

	mu      sync.Mutex
	of      map[keyholder][]*caller // oldest first
	budgets map[keyholder]*budget   // of nodes, and of keyholders with connections
}

func newCallers(l Limits) *callers {
	return &callers{limits: l, of: make(map[keyholder][]*caller), budgets: make(map[keyholder]*budget)}
}

// enter adds a connection, and returns the one to close for it; nil: none.
func (cs *callers) enter(c *caller) (oldest *caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.budgets[c.keyholder] == nil {
		cs.budgets[c.keyholder] = newBudget(cs.limits)
	}
	c.budget = cs.budgets[c.keyholder]
	cs.of[c.keyholder] = append(cs.of[c.keyholder], c)
	if len(cs.of[c.keyholder]) > cs.limits.Connections {
		return cs.of[c.keyholder][0]
	}
	return nil
}

func (cs *callers) leave(c *caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	left := cs.of[c.keyholder][:0:0]
	for _, other := range cs.of[c.keyholder] {
		if other != c {
			left = append(left, other)
		}
	}
	cs.of[c.keyholder] = left
	if len(left) == 0 {
		delete(cs.of, c.keyholder)
	}
}

// expel closes the connections of callers that are not nodes any more.
func (cs *callers) expel(holds func(host, key string) bool) {
	var gone []*caller
	cs.mu.Lock()
	for who, all := range cs.of {
		if !holds(who.host, who.key) {
			gone = append(gone, all...)
		}
	}
	for who := range cs.budgets { // only of those removed for good: others would get a fresh budget by reconnecting
		if len(cs.of[who]) == 0 && !holds(who.host, who.key) {
			delete(cs.budgets, who)
		}
	}
	cs.mu.Unlock()
	for _, c := range gone {
		c.cut()
	}
}

// count returns the number of connections.
func (cs *callers) count() (n int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, all := range cs.of {
		n += len(all)
	}
	return n
}

// credentialsOf are server credentials for connections whose TLS handshake is already complete.
type credentialsOf struct{ g *Gate }

// ServerHandshake implements credentials.TransportCredentials. It refuses clients without a certificate of a
// node of this cluster; whether the node is still a member is checked with each call.
func (s credentialsOf) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	who, ends, err := s.show(raw)
	if err != nil {
		s.g.noteRejected(raw.RemoteAddr(), err)
		return nil, nil, errors.Join(err, raw.Close())
	}
	conn := &entered{Conn: raw}
	c := &caller{keyholder: keyholder{who.Name, who.KeyHash}, ends: ends, from: raw.RemoteAddr(), cut: func() { _ = conn.Close() }}
	expiry := time.AfterFunc(math.MaxInt64, c.cut)
	conn.leave = sync.OnceFunc(func() {
		expiry.Stop()
		s.g.callers.leave(c)
	})
	if oldest := s.g.callers.enter(c); oldest != nil {
		oldest.cut()
	}
	// A node renews its certificate long before, and uses it on the next connection. When this connection ends
	// earlier, it is removed from the callers.
	expiry.Reset(time.Until(ends))
	return conn, c, nil
}

func (s credentialsOf) show(raw net.Conn) (who identity.Identity, ends time.Time, err error) {
	secured, ok := raw.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return who, ends, errors.New("it is not encrypted")
	}
	chain := secured.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return who, ends, errors.New("no certificate was shown")
	}
	if who, err = s.g.cfg.Verify(chain, time.Now()); err != nil {
		return who, ends, err
	}
	if who.Kind != identity.Node {
		return who, ends, fmt.Errorf("%s is not a node", who)
	}
	return who, chain[0].NotAfter, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (credentialsOf) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are those of a server")
}

// Info implements credentials.TransportCredentials.
func (credentialsOf) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (s credentialsOf) Clone() credentials.TransportCredentials { return s }

// OverrideServerName implements credentials.TransportCredentials.
func (credentialsOf) OverrideServerName(string) error { return nil }

// entered is a connection of a node; leave is called when it is closed.
type entered struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (e *entered) Close() error {
	e.leave()
	return e.Conn.Close()
}
