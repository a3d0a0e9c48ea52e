package pipeline

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// withNames gives the node of a pod a name server that answers every query with the asking address as text.
func (c *cluster) withNames(of Endpoint) {
	c.t.Helper()
	n := c.pod(of).node
	config := n.pipeline.config
	config.NamesPort = exampleNamesPort
	n.pipeline = New(config)
	server := &pod{Endpoint: Endpoint{ID: "name server"}, t: c.t, node: n, port: exampleNamesPort, netns: n.Netns + "-names"}
	server.netnsCommand("add")
	c.t.Cleanup(func() { server.netnsCommand("del") })
	p := NamesPrefixes()
	n.Exec("sh", "-ec", `
ip link add names type veth peer name eth0 netns "$1"
ip link set names up
ip -n "$1" link set lo up
ip -n "$1" link set eth0 address "$2" arp off
ip netns exec "$1" ethtool -K eth0 tx off >/dev/null
ip -n "$1" link set eth0 up
ip -n "$1" addr add "$3" dev eth0
ip -n "$1" addr add "$4" dev eth0 nodad
ovs-vsctl --db="unix:$5" --timeout=60 add-port br-int names -- set interface names ofport_request="$6"`, "sh",
		server.netns, net.HardwareAddr(NamesMAC[:]).String(), netip.PrefixFrom(NamesServer(p[0]), p[0].Bits()).String(),
		netip.PrefixFrom(NamesServer(p[1]), p[1].Bits()).String(), n.Socket, strconv.Itoa(exampleNamesPort))
	n.AwaitLink("names")
	answer := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		reply := new(dns.Msg).SetReply(m)
		reply.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{w.RemoteAddr().Network() + " " + host(w.RemoteAddr())}}}
		_ = w.WriteMsg(reply) // the client may have gone
	})
	for _, prefix := range p {
		at := netip.AddrPortFrom(NamesServer(prefix), dnsPort).String()
		udp, tcp := &dns.Server{Handler: answer}, &dns.Server{Handler: answer}
		// Go determines the network's abilities with the first socket; it needs a loopback for that.
		err := server.inside(func() (err error) {
			if udp.PacketConn, err = net.ListenPacket("udp", at); err != nil {
				return err
			}
			tcp.Listener, err = net.Listen("tcp", at)
			return err
		})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, s := range []*dns.Server{udp, tcp} {
			started, ended := make(chan struct{}), make(chan error, 1)
			s.NotifyStartedFunc = func() { close(started) }
			go func() { ended <- s.ActivateAndServe() }()
			<-started
			c.t.Cleanup(func() {
				if err := s.Shutdown(); err != nil {
					c.t.Error(err)
				}
				if err := <-ended; err != nil {
					c.t.Error(err)
				}
			})
		}
	}
	c.program()
}

func host(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return err.Error()
	}
	return h
}

// asks returns the answer of a name server to a pod.
func (p *pod) asks(network string, server netip.Addr) string {
	p.t.Helper()
	var reply *dns.Msg
	err := p.inside(func() (err error) {
		client := dns.Client{Net: network, Timeout: soon}
		reply, _, err = client.Exchange(new(dns.Msg).SetQuestion("who.am.i.", dns.TypeTXT), netip.AddrPortFrom(server, dnsPort).String())
		return err
	})
	if err != nil || len(reply.Answer) != 1 {
		return fmt.Sprintf("%v %v", err, reply)
	}
	return reply.Answer[0].(*dns.TXT).Txt[0]
}

// Endpoints of two tenants with one address query the gateway, and the server can distinguish them.
func TestTheNameServerKnowsWhoAsks(t *testing.T) {
	c := startCluster(t, web1, red1, db1)
	c.withNames(web1)
	prefixes := NamesPrefixes()
	for _, e := range []Endpoint{web1, red1, db1} {
		p, in := c.pod(e), networkOf(e)
		for i, gateway := range []netip.Addr{in.Gateway, in.Gateway6} {
			for _, network := range []string{"udp", "tcp"} {
				want := network + " " + NamesAsker(prefixes[i], p.port).String()
				if got := p.asks(network, gateway); got != want {
					t.Errorf("%s at port %d asks %s: %s, want %s", e.ID, p.port, gateway, got, want)
				}
			}
		}
	}
}

// No endpoint can use the server's addresses, and only DNS passes.
func TestNothingButNamesPassesToTheNameServer(t *testing.T) {
	c := startCluster(t, web1, db1)
	c.withNames(web1)
	n, port, p := c.pod(web1).node, c.pod(web1).port, NamesPrefixes()[0]
	server := NamesServer(p)
	ask := packet{inPort: port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: webBlue.Gateway, kind: "udp,nw_ttl=64,udp_dst=53"}
	if got := n.verdict(t, ask); got == "drop" {
		t.Errorf("a question is dropped")
	}
	for name, change := range map[string]func(*packet){
		"another port":             func(p *packet) { p.kind = "udp,nw_ttl=64,udp_dst=54" },
		"the server's own address": func(p *packet) { p.to = server },
		"in another's name":        func(p *packet) { p.from = db1.IPv4 },
		"the gateway of another":   func(p *packet) { p.to = dbBlue.Gateway },
		"from the tunnel":          func(p *packet) { p.inPort, p.vni = exampleTunnelPort, webBlue.VNI },
		"the server to a pod's address": func(p *packet) {
			p.inPort, p.from, p.to, p.kind = exampleNamesPort, server, web1.IPv4, "udp,nw_ttl=64,udp_src=53"
		},
		"the server from another port": func(x *packet) {
			x.inPort, x.from, x.to, x.kind = exampleNamesPort, server, NamesAsker(p, port), "udp,nw_ttl=64,udp_src=54"
		},
		"the server to nobody": func(x *packet) {
			x.inPort, x.from, x.to, x.kind = exampleNamesPort, server, NamesAsker(p, 4000), "udp,nw_ttl=64,udp_src=53"
		},
	} {
		odd := ask
		change(&odd)
		if got := n.verdict(t, odd); got != "drop" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A query passes the meter for queries of its port, and no other packet does.
func TestQuestionsPassAMeterOfTheirPort(t *testing.T) {
	c := startCluster(t, web1, red1)
	c.withNames(web1)
	for _, e := range []Endpoint{web1, red1} {
		p := c.pod(e)
		id := questionMeter(p.port)
		ask := packet{inPort: p.port, src: e.MAC, dst: AnycastMAC, from: e.IPv4, to: networkOf(e).Gateway, kind: "udp,nw_ttl=64,udp_dst=53"}
		if got := p.node.Appctl("ofproto/trace", bridge, ask.String()); !strings.Contains(got, fmt.Sprintf("meter:%d\n", id)) {
			t.Errorf("%s: a question passes no meter %d:\n%s", e.ID, id, got)
		}
		if got := p.node.Ofctl("dump-meters", bridge); !strings.Contains(got, fmt.Sprintf("meter=%d pktps burst stats bands=\ntype=drop rate=5000 burst_size=5000", id)) {
			t.Errorf("%s: no meter %d:\n%s", e.ID, id, got)
		}
	}
}

func TestAddressesOfAskersAreMadeOfTheirPorts(t *testing.T) {
	p := NamesPrefixes()
	for port, want := range map[uint32]string{1: "169.254.0.1 fd63:6f6e:7469:7600::1", 10: "169.254.0.10 fd63:6f6e:7469:7600::a", 65279: "169.254.254.255 fd63:6f6e:7469:7600::feff"} {
		if got := NamesAsker(p[0], port).String() + " " + NamesAsker(p[1], port).String(); got != want {
			t.Errorf("port %d: %s, want %s", port, got, want)
		}
		for _, prefix := range p {
			if got := NamesPort(NamesAsker(prefix, port)); got != port {
				t.Errorf("%s is at port %d, want %d", NamesAsker(prefix, port), got, port)
			}
		}
	}
}
