package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/test/testbed"
)

// Loopback addresses of both servers.
const (
	ourSocket   = "127.0.36.53"
	theirSocket = "127.0.36.54"
)

// benchDNSSocket is benchDNS without the switch: clients and servers on the loopback.
func benchDNSSocket(ctx context.Context, bed *testbed.Bed) (figures []figure, err error) {
	f := figure{Name: "answers to processes of the same machine that ask for names", Goal: fmt.Sprintf("at least %.1f", dnsGoal)}
	zones, hosts, names := nameserver.NewZones(), strings.Builder{}, []string{}
	for i := range dnsAskers {
		a, group := netip.AddrFrom4([4]byte{10, 36, 0, byte(i + 1)}), fmt.Sprint("name", i%dnsGroups)
		zones.SetEndpoint(nameserver.Endpoint{ID: fmt.Sprint("asker", i), Tenant: "dns", Group: group, IPv4: a})
		fmt.Fprintln(&hosts, a, group)
		if i < dnsGroups {
			names = append(names, group)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(ourSocket), Port: 53})
	if err != nil {
		return nil, err
	}
	streams, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		return nil, errors.Join(err, packets.Close())
	}
	server := &nameserver.Server{Zones: zones, Log: logrus.NewEntry(logrus.New()), Tenant: func(netip.Addr) (string, bool) { return "dns", true }}
	go func() { ended <- server.Run(ctx, packets, streams) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	probe := filepath.Join(bed.Bin, "probe")
	rates := map[string][]float64{}
	file := filepath.Join(bed.Dir, "dnsmasq.hosts")
	if err := os.WriteFile(file, []byte(hosts.String()), 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(file) // the bed's directory must be empty at the end
	reference := exec.CommandContext(ctx, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--addn-hosts="+file,
		"--listen-address="+theirSocket, "--bind-interfaces", "--local-ttl=30", "--user=root", "--pid-file=")
	if err := reference.Start(); err != nil {
		return nil, err
	}
	defer func() {
		stop()
		_ = reference.Wait() // killed
	}()
	for range dnsRounds {
		for _, address := range []string{ourSocket, theirSocket} {
			out, err := exec.CommandContext(ctx, probe, append([]string{"questions", "-server", address, "-workers", "32", "-for", "2s"}, names...)...).Output()
			if err != nil {
				return nil, err
			}
			var report asking
			if err := json.Unmarshal(out, &report); err != nil {
				return nil, err
			}
			rates[address] = append(rates[address], report.rate())
		}
	}
	ours, theirs := median(rates[ourSocket]), median(rates[theirSocket])
	f.Value, f.Reference, f.Ratio, f.Met = fmt.Sprintf("%.0f/s", ours), fmt.Sprintf("dnsmasq %.0f/s", theirs), fmt.Sprintf("%.2f", ours/theirs), ours >= dnsGoal*theirs
	return []figure{f}, nil
}
