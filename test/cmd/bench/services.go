package main

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

const (
	serviceVIP    = "10.37.0.200" // of the service, and of both references
	serviceRounds = 5             // of each side, alternating; the median counts
)

// referencesScript sets up the references on a node: a client and a server on a bare bridge with the fewest flows
// that translate with the connection tracker, and that forward everything else unchanged; and a client, a server
// and a router between them with the rules that kube-proxy writes for such a service.
const referencesScript = `
vip=$1
for side in ovs nft; do
  ip netns add $side-client
  ip netns add $side-server
done
ovs-vsctl add-br br-ct -- set bridge br-ct datapath_type=netdev fail_mode=secure
for i in 1 2; do
  ns=$([ $i = 1 ] && echo ovs-client || echo ovs-server)
  ip link add ct-p$i type veth peer name eth0 netns $ns
  ip link set ct-p$i up
  ip -n $ns link set eth0 address 02:00:00:00:00:0$i up
  ip -n $ns link set lo up
  ip -n $ns addr add 10.37.0.$i/24 dev eth0
  ip netns exec $ns ethtool -K eth0 tx off >/dev/null
  ovs-vsctl add-port br-ct ct-p$i -- set interface ct-p$i ofport_request=$i
done
ip -n ovs-client neigh add $vip lladdr 02:00:00:00:00:02 dev eth0
ovs-ofctl -O OpenFlow13 add-group br-ct "group_id=1,type=select,bucket=actions=ct(commit,zone=7,table=2,nat(dst=10.37.0.2:80))"
ovs-ofctl -O OpenFlow13 add-flows br-ct - <<END
table=0,priority=1,in_port=1,actions=output:2
table=0,priority=1,in_port=2,actions=output:1
table=0,priority=10,tcp,in_port=1,nw_dst=$vip,tp_dst=80,actions=ct(zone=7,nat,table=1)
table=0,priority=10,tcp,in_port=2,tp_src=80,actions=ct(zone=7,nat,table=3)
table=1,priority=10,ct_state=+new+trk,tcp,nw_dst=$vip,actions=group:1
table=1,priority=1,actions=output:2
table=2,actions=output:2
table=3,actions=output:1
END
ip netns add nft-router
for i in 1 2; do
  ns=$([ $i = 1 ] && echo nft-client || echo nft-server)
  ip link add eth$i netns nft-router type veth peer name eth0 netns $ns
  ip -n nft-router addr add 10.38.$i.254/24 dev eth$i
  ip -n nft-router link set eth$i up
  ip -n $ns addr add 10.38.$i.1/24 dev eth0
  ip -n $ns link set eth0 up
  ip -n $ns link set lo up
  ip -n $ns route add default via 10.38.$i.254
done
for i in 11 12 13 14 15; do
  ip -n ovs-client addr add 10.37.0.$i/24 dev eth0
  ip -n nft-client addr add 10.38.1.$i/24 dev eth0
done
ip netns exec nft-router sysctl -q -w net.ipv4.ip_forward=1
ip netns exec nft-router nft -f - <<END
table ip proxy {
  chain endpoint {
    meta l4proto tcp dnat to 10.38.2.1:80
  }
  chain service {
    numgen random mod 1 vmap { 0 : goto endpoint }
  }
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { $vip . tcp . 80 : goto service }
  }
  chain prerouting {
    type nat hook prerouting priority dstnat;
    ip daddr . meta l4proto . th dport vmap @service-ips
  }
}
END`

// benchServices compares connections to a service with those to the references, and iperf3 to a service with
// iperf3 to its provider.
func benchServices(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "svc"},
		[]string{"network", "create", "-t", "svc", "-s", "10.37.0.0/24", "-g", "10.37.0.254", "net"},
		[]string{"service", "create", "-t", "svc", "-s", "net", "-l", "app=web", "-ip", serviceVIP, "-p", "80:80:TCP", "-p", "5201:5201:TCP", "web"})
	if err != nil {
		return nil, err
	}
	n := bed.Nodes[1]
	var clients []netnsRunner
	for i := range serviceRounds {
		client, err := n.AddPod(ctx, fmt.Sprint("svc-client", i), "svc", "net", "")
		if err != nil {
			return nil, err
		}
		clients = append(clients, netnsRunner{n, client.Name, client.IP.String()})
	}
	client := clients[0]
	provider := &testbed.Pod{Name: "svc-web", Node: n, Tenant: "svc", Network: "net", Labels: map[string]string{"app": "web"}}
	if err := provider.MakeSandbox(ctx); err != nil {
		return nil, err
	}
	if err := provider.Attach(ctx); err != nil {
		return nil, err
	}
	if _, err := n.Run(ctx, "sh", "-ec", referencesScript, "sh", serviceVIP); err != nil {
		return nil, err
	}
	var bridged, routed []netnsRunner
	for i := range serviceRounds {
		bridged = append(bridged, netnsRunner{n, "ovs-client", fmt.Sprint("10.37.0.", 11+i)})
		routed = append(routed, netnsRunner{n, "nft-client", fmt.Sprint("10.38.1.", 11+i)})
	}
	ours := newDialled(clients, serviceVIP+":80")
	translated, carried := newDialled(bridged, serviceVIP+":80"), newDialled(bridged, "10.37.0.2:81")
	kernel := newDialled(routed, serviceVIP+":80")
	for ns, ports := range map[string]string{provider.Name: "80", "ovs-server": "80,81", "nft-server": "80"} {
		server := netnsRunner{node: n, ns: ns}
		p, err := n.Start("serve-"+ns, server.command(provider.Probe(), "serve", "-tcp", ports)...)
		if err != nil {
			return nil, err
		}
		defer p.Kill()
		if _, err := n.Run(ctx, server.command("timeout", "10", "sh", "-c", "until ss -ltn | grep -q :80; do :; done")...); err != nil {
			return nil, err
		}
	}
	for range serviceRounds {
		for _, d := range []*dialled{ours, translated, carried, kernel} {
			if err := d.round(ctx, provider.Probe()); err != nil {
				return nil, err
			}
		}
	}
	list := []figure{
		ours.beside("bare bridge with ct(nat)", 0.9, translated),
		ours.beside("kube-proxy's nftables rules", 1, kernel),
		ours.beside("bare bridge that translates nothing", 0, carried),
		ours.costBeside("bare bridge with ct(nat)", 1/0.9, translated),
		ours.costBeside("bare bridge that translates nothing", 0, carried),
	}
	throughput, err := compareTCP(ctx, "TCP through a service, same node", "to the provider itself", 0.8,
		client, netnsRunner{n, provider.Name, serviceVIP},
		client, netnsRunner{n, provider.Name, provider.IP.String()})
	return append(list, throughput), err
}

// dialled are clients that connect to a server repeatedly, one client per round: a round in which the client's
// ports are reused would measure the reuse of ports instead (docs/performance.md).
type dialled struct {
	clients []netnsRunner
	to      string // address:port
	rates   []float64
	spent   *effort // of the switches
}

func newDialled(clients []netnsRunner, to string) *dialled {
	return &dialled{clients: clients, to: to, spent: newEffort("ovs-vswitchd")}
}

// dialRound is the duration of a round.
const dialRound = 2 * time.Second

func (d *dialled) round(ctx context.Context, probe string) error {
	d.spent.begin()
	rate, err := connections(ctx, d.clients[len(d.rates)%len(d.clients)], d.to, probe)
	d.spent.end()
	d.rates = append(d.rates, rate)
	return err
}

// cost returns the processor time of the switches per connection.
func (d *dialled) cost() time.Duration {
	var made float64
	for _, rate := range d.rates {
		made += rate * dialRound.Seconds()
	}
	return d.spent.each("ovs-vswitchd", int(made))
}

// beside compares the rates; the goal is a fraction of the reference, 0 for none.
func (d *dialled) beside(name string, goal float64, reference *dialled) figure {
	mine, theirs := median(d.rates), median(reference.rates)
	return figure{
		Name: "connections to a service", Value: fmt.Sprintf("%.0f/s", mine), Reference: fmt.Sprintf("%s %.0f/s", name, theirs),
		Ratio: fmt.Sprintf("%.2f", mine/theirs), Goal: goalOf("at least", goal), Met: mine/theirs >= goal,
	}
}

// costBeside compares the costs; the goal is a multiple of the reference's.
func (d *dialled) costBeside(name string, goal float64, reference *dialled) figure {
	ratio := float64(d.cost()) / float64(reference.cost())
	return figure{
		Name: "of it processor time of ovs-vswitchd for each", Value: fmt.Sprint(d.cost().Round(time.Microsecond)),
		Reference: fmt.Sprintf("%s %v", name, reference.cost().Round(time.Microsecond)),
		Ratio:     fmt.Sprintf("%.2f", ratio), Goal: goalOf("at most", goal), Met: goal == 0 || ratio <= goal,
	}
}

func goalOf(what string, goal float64) string {
	if goal == 0 {
		return "none"
	}
	return fmt.Sprintf("%s %.1f", what, goal)
}

// connections returns the rate of connections to a service, per second.
func connections(ctx context.Context, from netnsRunner, to, probe string) (float64, error) {
	out, err := from.node.Run(ctx, from.command(probe, "dial", "-from", from.ip, "-to", to, "-for", dialRound.String())...)
	if err != nil {
		return 0, err
	}
	return rateOf(from.ns, out)
}
