package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/drivers/ovsd/zones"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/hostaddr"
	"github.com/contiv/netplugin/utils/ports"
)

// options are the command line, and what complete makes of it.
type options struct {
	daemonflags.Common
	node     cluster.Node
	runDir   string
	datapath string

	hostLabel, ctrlIP, vtepIP string
	vlanUplinks, vlanBondMode string
	uplinks                   []string // empty: networks of encapsulation vlan are not supported
	bondMode                  uplink.BondMode
	vxlanPort                 int
	httpAddress, socket       string
	nodePortAddresses         string
	nodePortsAt               []netip.Prefix // nil: the primary addresses of the host
	probedNetworks            string
	probed                    []hostaccess.ProbedNetwork
	cniConfDir                string   // empty: another component installs the CNI configuration
	netmasters                string   // as given
	masters                   []string // URLs; empty: etcd is accessed directly
	names                     namesOptions
	join                      joinOptions
	nat                       bool // endpoints reach the outside by this host
	tooBig                    bool // endpoints are notified of packets that are too big
	slowFrom                  int  // masks; 0: no endpoint is slowed down
	tenantConnections         int  // 0: if there are several tenants, a part of the datapath's table
}

// configError has all violations of the command line.
type configError struct{ violations []error }

func (e *configError) Error() string {
	texts := make([]string, len(e.violations))
	for i, violation := range e.violations {
		texts[i] = violation.Error()
	}
	return strings.Join(texts, "\nnetplugin: ")
}

func (e *configError) Unwrap() []error { return e.violations }

// Parts of the model for which this agent has no datapath or server yet. They are refused, since partial support
// would be worse.
var (
	servedModes    = []string{"kubernetes", "cni", "test"}
	servedNetModes = []string{"vxlan", "vlan"}
	servedFwdModes = []string{"bridge", "routing"}
)

// complete validates the options and fills in what it can determine from the host.
func (o *options) complete(positional []string) error {
	found := o.Validate()
	if len(found) == 0 {
		found = o.refuseUnserved()
	}
	if len(positional) > 0 {
		found = append(found, fmt.Errorf("unexpected argument %q", positional[0]))
	}
	found = append(found, o.completeNode()...)
	if o.runDir == "" {
		o.runDir = ovsd.DefaultRunDir
	}
	o.datapath = strings.ToLower(o.datapath)
	if !slices.Contains([]string{ovsd.DatapathAuto, ovsd.DatapathSystem, ovsd.DatapathNetdev}, o.datapath) {
		found = append(found, fmt.Errorf("--datapath %q: want auto, system or netdev", o.datapath))
	}
	if o.tenantConnections < zones.AnyNumber {
		found = append(found, fmt.Errorf("--tenant-connections %d: must be a number of connections, 0 or %d", o.tenantConnections, zones.AnyNumber))
	}
	if o.slowFrom < 0 {
		found = append(found, fmt.Errorf("--slow-from-masks %d: must be a number of masks, or 0", o.slowFrom))
	}
	found = append(found, o.completeMasters()...)
	found = append(found, o.completeJoining()...)
	found = append(found, o.completeUplinks()...)
	found = append(found, o.completeNodePorts()...)
	found = append(found, o.completeProbed()...)
	found = append(found, o.names.complete()...)
	if err := daemonflags.CheckAddress(o.httpAddress); err != nil {
		found = append(found, fmt.Errorf("--http-address: %w", err))
	}
	if len(found) > 0 {
		return &configError{found}
	}
	return nil
}

func (o *options) refuseUnserved() []error {
	var found []error
	for _, choice := range []struct {
		flag, value string
		served      []string
	}{
		{"--mode", o.Mode, servedModes}, {"--netmode", o.NetMode, servedNetModes}, {"--fwdmode", o.FwdMode, servedFwdModes},
	} {
		if !slices.Contains(choice.served, choice.value) {
			found = append(found, fmt.Errorf("%s %q: not supported yet, only %s", choice.flag, choice.value, strings.Join(choice.served, ", ")))
		}
	}
	return found
}

// completeNode fills in the node's identity.
func (o *options) completeNode() []error {
	var found []error
	if o.hostLabel == "" {
		name, err := os.Hostname()
		if err != nil {
			found = append(found, fmt.Errorf("--host: the host has no name: %w", err))
		}
		o.hostLabel = name
	}
	if strings.ContainsAny(o.hostLabel, "/ ") {
		found = append(found, fmt.Errorf("--host %q: must not contain slashes or blanks", o.hostLabel))
	}
	o.node.HostLabel = o.hostLabel
	if _, port, err := net.SplitHostPort(o.httpAddress); err == nil && port != strconv.Itoa(ports.Agent) {
		o.node.RESTPort, _ = strconv.Atoi(port) // see CheckAddress
	}
	var err error
	if o.node.CtrlIP, err = address(o.ctrlIP); err != nil {
		found = append(found, fmt.Errorf("--ctrl-ip: %w", err))
	}
	if o.node.VTEP, err = address(o.vtepIP); err != nil {
		found = append(found, fmt.Errorf("--vtep-ip: %w", err))
	}
	if o.vxlanPort < 1 || o.vxlanPort > 65535 {
		found = append(found, fmt.Errorf("--vxlan-port %d: must be 1 to 65535", o.vxlanPort))
	}
	o.node.VXLANPort = uint16(o.vxlanPort)
	return found
}

// Keywords of --node-port-addresses in place of networks.
const (
	nodePortsPrimary = "primary"
	nodePortsAll     = "all"
)

// completeNodePorts sets the addresses of node ports: those of a keyword, or those in networks.
func (o *options) completeNodePorts() (found []error) {
	all := daemonflags.List(o.nodePortAddresses)
	if len(all) == 0 {
		all = []string{map[bool]string{true: nodePortsPrimary, false: nodePortsAll}[o.Mode == "kubernetes"]}
	}
	if slices.Equal(all, []string{nodePortsPrimary}) {
		o.nodePortsAt = nil
		return nil
	}
	if slices.Equal(all, []string{nodePortsAll}) {
		o.nodePortsAt = hostaccess.Everywhere()
		return nil
	}
	for _, text := range all {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			found = append(found, fmt.Errorf("--node-port-addresses: %q is not a network such as 192.0.2.0/24; want networks, or %s or %s alone", text, nodePortsPrimary, nodePortsAll))
			continue
		}
		o.nodePortsAt = append(o.nodePortsAt, p.Masked())
	}
	return found
}

// completeProbed sets the networks of the pods that the node's processes reach.
func (o *options) completeProbed() (found []error) {
	for _, text := range daemonflags.List(o.probedNetworks) {
		tenant, network, _ := strings.Cut(text, "=")
		switch p, err := netip.ParsePrefix(network); {
		case err != nil || tenant == "":
			found = append(found, fmt.Errorf("--probed-networks: %q is not a tenant with a network, such as blue=192.0.2.0/24", text))
		case p.Bits() == 0:
			found = append(found, fmt.Errorf("--probed-networks: %s is where all is that the node reaches; want a network of tenant %s", p, tenant))
		default:
			o.probed = append(o.probed, hostaccess.ProbedNetwork{Tenant: tenant, Network: p.Masked()})
		}
	}
	return found
}

// completeMasters sets the netmasters through which the state is read, in place of etcd.
func (o *options) completeMasters() (found []error) {
	if o.netmasters == "" {
		return nil
	}
	if o.EtcdGiven() || o.Store.CAFile != "" || o.Store.CertFile != "" || o.Store.User != "" {
		found = append(found, fmt.Errorf("--netmasters: the state is reached through them; leave the flags of etcd out"))
	}
	o.masters = daemonflags.List(o.netmasters)
	o.node.ByMasters = true
	for _, text := range o.masters {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" {
			found = append(found, fmt.Errorf("--netmasters: %q is not a URL such as https://192.0.2.1:9999", text))
		} else if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			found = append(found, fmt.Errorf("--netmasters: %q has a name, want the address: whoever asks for a name may be shown a certificate of netmaster's --tls-cert, which nodes do not trust", text))
		}
	}
	if len(found) == 0 && !o.join.wanted() {
		found = append(found, fmt.Errorf("--netmasters: they know nodes that have joined; give --join-token-file"))
	}
	o.Store.Endpoints = o.masters
	return found
}

// completeJoining validates the credentials for joining.
func (o *options) completeJoining() []error {
	if o.join.authorities != "" && o.join.tokenFile == "" {
		return []error{fmt.Errorf("--join-authorities: needs --join-token-file, the token to show to netmasters")}
	}
	return nil
}

// completeUplinks sets the names of the uplinks, and their bonding mode.
func (o *options) completeUplinks() (found []error) {
	for name := range strings.SplitSeq(o.vlanUplinks, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case strings.ContainsAny(name, "/ ") || len(name) > maxLinkName:
			found = append(found, fmt.Errorf("--vlan-uplinks %q: %q is not the name of a link", o.vlanUplinks, name))
		case slices.Contains(o.uplinks, name):
			found = append(found, fmt.Errorf("--vlan-uplinks %q: %s is named twice", o.vlanUplinks, name))
		default:
			o.uplinks = append(o.uplinks, name)
		}
	}
	if o.NetMode == "vlan" && len(o.uplinks) == 0 {
		found = append(found, fmt.Errorf("--netmode vlan: needs an uplink, --vlan-uplinks"))
	}
	var ok bool
	if o.bondMode, ok = uplink.ParseBondMode(o.vlanBondMode); !ok {
		found = append(found, fmt.Errorf("--vlan-bond-mode %q: want %s", o.vlanBondMode, strings.Join(uplink.BondModes(), ", ")))
	}
	return found
}

// maxLinkName is the maximum length of a link's name in the kernel, in bytes.
const maxLinkName = 15

// address parses the address of a host; the default is this host's. A network means this host's address in it, so
// that all nodes can have the same flag.
func address(text string) (netip.Addr, error) {
	if text == "" {
		return hostaddr.Default()
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		return hostaddr.In(network)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Is4In6() || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() && addr.Is6() {
		return netip.Addr{}, fmt.Errorf("%q is not an address of a host", text)
	}
	return addr, nil
}
