package checkup

import (
	"fmt"
	"net/netip"
	"strings"
)

// listener is where Open vSwitch takes orders beside the sockets of its own machine, as a node tells it.
type listener struct {
	Target string
	Bridge string // whose flows are changed so; empty: the database
	Option bool   // ovsdb-server was told so, and no database has it
}

// checkListeners names where others than netplugin can change the switch of a node. Open to the network, without certificates, it is a
// fault: whoever reaches it gets past everything that is guarded.
func (v bridgeView) checkListeners(host string, report Report) {
	if unknown := v.ErrStats["Listeners"]; unknown != "" {
		report.check("openvswitch "+host, "", "WARNING, it is not known who else changes it: "+unknown, nil)
	}
	for _, l := range v.Datapath.Listeners {
		if problem, open := l.problem(); open {
			report.check("openvswitch "+host, l.remedy(), "", fmt.Errorf("%s %s", l.what(), problem))
		} else if problem != "" {
			report.check("openvswitch "+host, "", "WARNING, "+l.what()+" "+problem, nil)
		}
	}
}

// problem says what others can do there; open: all who reach the node. It is empty where nobody can.
func (l listener) problem() (text string, open bool) {
	kind, where, _ := strings.Cut(l.Target, ":")
	passive := kind == "ptcp" || kind == "pssl"
	if passive { // [port][:address]
		_, where, _ = strings.Cut(where, ":")
	}
	local := isLoopback(where)
	switch {
	case passive && local:
		return fmt.Sprintf("listens at %s: every user and every host-network pod of the machine changes it past everything that is guarded", l.Target), false
	case kind == "ptcp":
		return fmt.Sprintf("listens at %s: whoever reaches that changes it past everything that is guarded", l.Target), true
	case kind == "pssl":
		return fmt.Sprintf("listens at %s: whoever has a certificate of the authority that ovs-vsctl get-ssl shows changes it past everything that is guarded", l.Target), false
	case kind == "tcp" || kind == "ssl":
		return fmt.Sprintf("takes orders from %s: whoever answers there changes it past everything that is guarded", l.Target), false
	}
	return "", false
}

// isLoopback tells whether an address, with a port or without, with brackets or without, is one of the machine only.
func isLoopback(text string) bool {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().IsLoopback()
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// what takes orders there.
func (l listener) what() string {
	if l.Bridge != "" {
		return "bridge " + l.Bridge
	}
	return "ovsdb-server"
}

// remedy is how the listener is closed.
func (l listener) remedy() string {
	switch {
	case l.Bridge != "":
		return "ovs-vsctl del-controller " + l.Bridge
	case l.Option:
		return "ovs-appctl -t ovsdb-server ovsdb-server/remove-remote " + l.Target + ", and take it out of the options that it is started with"
	}
	return "ovs-vsctl del-manager"
}
