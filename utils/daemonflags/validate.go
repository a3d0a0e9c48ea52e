package daemonflags

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Valid modes; "test" works but is not documented.
var (
	modes    = []string{"docker", "kubernetes", "swarm-mode", "cni", "test"}
	netModes = []string{"vlan", "vxlan"}
	fwdModes = []string{"bridge", "routing"}
)

// Validate converts the values to their canonical form and returns every violation, each naming its flag and
// value.
func (c *Common) Validate() []error {
	found := c.Logging.Validate()
	found = append(found, choice("--mode", &c.Mode, modes, "docker, kubernetes, swarm-mode or cni")...)
	found = append(found, choice("--netmode", &c.NetMode, netModes, "vlan or vxlan")...)
	found = append(found, choice("--fwdmode", &c.FwdMode, fwdModes, "bridge or routing")...)
	return append(found, c.validateStore()...)
}

// EtcdGiven reports whether the user named a store.
func (c *Common) EtcdGiven() bool { return c.etcd != "" }

func (c *Common) validateStore() []error {
	var found []error
	if c.consul != "" {
		found = append(found, fmt.Errorf("--consul-endpoints %q: consul is not supported, use --etcd-endpoints", c.consul))
	}
	given := c.etcd
	if given == "" {
		given = DefaultEtcdEndpoint
	}
	c.Store.Endpoints = List(given)
	if len(c.Store.Endpoints) == 0 {
		found = append(found, fmt.Errorf("--etcd-endpoints %q: no URL in it", c.etcd))
	}
	for _, endpoint := range c.Store.Endpoints {
		if err := CheckURL(endpoint); err != nil {
			found = append(found, fmt.Errorf("--etcd-endpoints: %w", err))
		}
	}
	if (c.Store.CertFile == "") != (c.Store.KeyFile == "") {
		found = append(found, fmt.Errorf("--etcd-cert and --etcd-key: give both or none"))
	}
	if c.Store.User != "" && !strings.Contains(c.Store.User, ":") {
		found = append(found, fmt.Errorf("--etcd-user: want name:password"))
	}
	return found
}

// choice converts a value to lower case and checks that it is one of a set.
func choice(flag string, value *string, allowed []string, advice string) []error {
	*value = strings.ToLower(*value)
	switch {
	case *value == "":
		return []error{fmt.Errorf("%s is required: %s", flag, advice)}
	case !slices.Contains(allowed, *value):
		return []error{fmt.Errorf("%s %q: want %s", flag, *value, advice)}
	}
	return nil
}

// List splits a comma-separated value and drops blanks.
func List(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// CheckURL accepts http and https URLs of a host and port.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is not a URL", text)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q: scheme must be http or https", text)
	}
	if err := CheckAddress(u.Host); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// Canonical returns the standard form of an address:port that [CheckAddress] accepts: IPv6 in brackets and IPv4
// without, whatever was given. Manifests, which do not know the IP family, always use brackets.
func Canonical(text string) string {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return text
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	if n, err := strconv.Atoi(port); err == nil {
		port = strconv.Itoa(n)
	}
	return net.JoinHostPort(host, port)
}

// CheckAddress accepts address:port with a port of 1 to 65535; an IPv6 address must be in brackets.
func CheckAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q: want address:port", text)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q: port must be 1 to 65535", text)
	}
	return nil
}
