package ovsd_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netplugin/refusal"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// ask prints how many requests are refused, of TCP and of UDP, at two ports of some addresses.
const ask = `
import socket, sys
refused = 0
for at in sys.argv[1:]:
    for port in 53, 54:
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
            s = socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET, kind)
            s.settimeout(5)
            try:
                s.connect((at, port)); s.send(b"x"); s.recv(1)
            except ConnectionRefusedError: refused += 1
            except OSError: pass
print(refused, end="")
`

// A client of another tenant is refused like others if a service has no backends, or not this port, also if
// policies isolate the client and allow the request.
func TestAnEndpointOfAnotherTenantIsRefused(t *testing.T) {
	n := newNode(t)
	r := n.start()
	own, client := n.newPod(r, 1), n.newPod(r, 2)
	red := network
	red.ID, red.Tenant, red.VRF, red.VNI, red.Tag = "web.red", "red", 2, 5002, 2
	red.Subnet6, red.Gateway6 = netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::fe")
	e := &client.endpoint
	e.Network, e.Tenant, e.VRF, e.VNI, e.Tag, e.IPv6 = red.ID, red.Tenant, red.VRF, red.VNI, red.Tag, netip.MustParseAddr("fd00:1::2")
	e.Class, e.Tiers = 5, pipeline.JudgesOut|pipeline.IsolatesOut|pipeline.JudgesIn|pipeline.IsolatesIn
	client.exec("ip", "address", "add", e.IPv6.String()+"/64", "dev", "eth0", "nodad")
	client.exec("ip", "route", "add", "default", "via", red.Gateway.String())
	client.exec("ip", "route", "add", "default", "via", red.Gateway6.String())
	addresses := []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:96::10")}
	names := pipeline.Service{ID: "names:blue", VRF: network.VRF, Tag: network.Tag}
	for _, a := range addresses {
		for _, protocol := range []uint8{openflow.ProtoTCP, openflow.ProtoUDP} {
			names.Ports = append(names.Ports, pipeline.ServicePort{Address: a, From: pipeline.FromPods | pipeline.FromTenants, Protocol: protocol, Port: 53})
		}
	}
	out := pipeline.Outside{ID: "host", MAC: [6]byte{2, 2, 2, 2, 2, 2}, Prefix: netip.MustParsePrefix("172.19.0.0/16"), Prefix6: netip.MustParsePrefix("fd63:6f6e:7469:7601::/64")}
	host := r.add("host")
	n.Exec("ip", "link", "set", host.PodLink, "up")
	n.AwaitLink(host.HostLink)
	all := everything(own)
	all.Set = append(all.Set, red, client.endpoint, out, pipeline.Epoch{Number: 1},
		pipeline.TierRule{ID: "ask", Tier: pipeline.PolicyTier, Out: true, Number: 1, Subjects: []uint16{5}, AnyPeer: true},
		names.Numbered(func(uint32) bool { return false }))
	r.give(all)
	r.tellICMPErrors()
	ctx, stop := context.WithCancel(t.Context())
	refusing := make(chan error, 1)
	go func() { refusing <- refusal.Serve(ctx, r, logrus.WithField("component", "refusal")) }()
	defer func() { stop(); <-refusing }()

	asks := func() string {
		return client.exec(testkit.Python, "-ISc", ask, addresses[0].String(), addresses[1].String())
	}
	eventually(t, "all is refused", func() bool { return asks() == "8" })
}
