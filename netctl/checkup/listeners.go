package checkup

import (
	"fmt"
	"net/netip"
	"strings"
)

// listener is an address at which Open vSwitch accepts management connections beside its local sockets, as
// reported by a node.
type listener struct {
	Target string
	Bridge string // the bridge with its flows; empty: the database
	Option bool   // set by a command line option of ovsdb-server, not in a database
}

// checkListeners names the listeners by which programs other than netplugin can change the switch of a node. One
// that is open to the network, without certificates, is a fault: a client of it bypasses everything that the flows
// protect.
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

// problem returns what a client of the listener can do; open: every client on the network. Empty if no client can
// do anything.
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

// isLoopback reports whether an address, with or without port and brackets, is a loopback address.
func isLoopback(text string) bool {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().IsLoopback()
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// what returns the name of the component that listens.
func (l listener) what() string {
	if l.Bridge != "" {
		return "bridge " + l.Bridge
	}
	return "ovsdb-server"
}

// remedy returns how to close the listener.
func (l listener) remedy() string {
	switch {
	case l.Bridge != "":
		return "ovs-vsctl del-controller " + l.Bridge
	case l.Option:
		return "ovs-appctl -t ovsdb-server ovsdb-server/remove-remote " + l.Target + ", and take it out of the options that it is started with"
	}
	return "ovs-vsctl del-manager"
}
