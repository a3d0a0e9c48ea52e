package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/owncert"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// securityOptions are the flags about identity and access.
type securityOptions struct {
	secure        bool
	insecure      bool
	dir           string
	names         string
	socket        string
	plainLoopback string
	token         string
	join          string
	podToken      string // file
	own           owncert.Files
	authProxy     string
	debug         bool
	encryptValues bool
	leafLife      time.Duration
}

func (s *securityOptions) flags(set daemonflags.Set) []cli.Flag {
	return []cli.Flag{
		set.Bool(&s.secure, "secure", "SECURE", categorySecurity,
			"close the cluster: a new one is enforced, which requires clients to authenticate, over TLS; one of an earlier version that is open gets authorities for certificates and is permissive. Default for new clusters with --embedded-etcd, or on an etcd reached with --etcd-cert"),
		set.Bool(&s.insecure, "insecure", "INSECURE", categorySecurity,
			"let a new cluster be open, as those of earlier versions: REST over plain HTTP, without authentication. Default for new clusters on a plain etcd; one that is there keeps its mode (netctl security --help)"),
		set.String(&s.plainLoopback, "plain-loopback", "PLAIN_LOOPBACK", "", categorySecurity,
			"serve plain HTTP on loopback to whoever asks there, in this role, also if the cluster is enforced: every user and host-network pod of the machine has it then"),
		set.String(&s.token, "join-token-file", "JOIN_TOKEN_FILE", "", categorySecurity,
			"file with a token of netctl token create --role master, which only its own user may read: a netmaster that has no authorities is given them by another one, over TLS, and does not lead before"),
		set.String(&s.join, "join", "JOIN", "", categorySecurity,
			"netmasters to ask then, address:port with commas between, before those that are registered in the store (default: the hosts of --embedded-etcd-peers, port of --internal-address)"),
		set.String(&s.podToken, "join-pod-token-file", "JOIN_POD_TOKEN_FILE", "", categorySecurity,
			"file with a token of this pod's service account, for audience "+mastercfg.JoinAudience+": where the cluster has authorities, this netmaster is given them by another one; with --k8s-api-server"),
		set.String(&s.dir, "pki-dir", "PKI_DIR", "/var/lib/contiv/pki", categorySecurity,
			"directory of the authorities; only its own user may read it"),
		set.Bool(&s.encryptValues, "encrypt-values", "ENCRYPT_VALUES", categorySecurity,
			"have the store keep the model and the state encrypted, by the keyring in --pki-dir: others who read it, or a backup of it, see the names of objects and no more; the same at each netmaster, as that of the leader counts, and nodes have to ask netmasters (netplugin --netmasters)"),
		set.String(&s.own.Cert, "tls-cert", "TLS_CERT", "", categorySecurity,
			"certificate of your own, with those between it and its authority: it is shown to clients that ask for a name that it has; read again each minute and on SIGHUP, as the next three"),
		set.String(&s.own.Key, "tls-key", "TLS_KEY", "", categorySecurity, "its key, which only netmaster's user may read"),
		set.String(&s.own.ClientCA, "tls-client-ca", "TLS_CLIENT_CA", "", categorySecurity,
			"authorities of your own: their certificates stand for the user whom a URI in them names, contiv://CLUSTER/user/NAME, or --client-cert-map"),
		set.String(&s.own.Map, "client-cert-map", "CLIENT_CERT_MAP", "", categorySecurity,
			"file with a line for each of their users: a name, and the subject of the certificate (RFC 2253) or key: and the SHA-256 of its public key"),
		set.String(&s.names, "tls-san", "TLS_SAN", "", categorySecurity,
			"names and addresses, with commas between, that clients reach this netmaster by, beside its own addresses"),
		set.String(&s.socket, "socket", "SOCKET", "", categorySecurity,
			"socket on which root of this machine is served (default: "+defaultSocket+", if it can be made)"),
		set.Bool(&s.debug, "debug", "DEBUG", categorySecurity,
			"show profiles and dumps of the process to root of this machine, on the socket, below /debug/pprof/"),
		&cli.DurationFlag{Name: "leaf-life", Sources: set.Env("LEAF_LIFE"), Value: pki.LeafLife, Destination: &s.leafLife,
			Category: categorySecurity, Usage: "how long certificates are good for; for tests of their renewal", OnlyOnce: true, Hidden: true},
		set.String(&s.authProxy, "auth-proxy-address", "AUTH_PROXY_ADDRESS", "", categorySecurity,
			"another address:port, such as :10000, on which REST is served over TLS only, for clients that know the authenticating proxy of the original there"),
	}
}

// shortestLife is the minimum lifetime of certificates, so that they are renewed in time.
const shortestLife = 10 * time.Second

// defaultSocket is the socket of netmaster for the machine's root user.
const defaultSocket = "/run/contiv/netmaster.sock"

// protection returns the security configuration of the flags, once the addresses are resolved. Clients may reach
// this netmaster at all addresses of the machine.
func (o *options) protection() (daemon.Security, []error) {
	s := daemon.Security{
		Dir: o.security.dir, Secure: o.security.secure, Socket: o.security.socket, AuthProxy: o.security.authProxy,
		Debug: o.security.debug, EncryptValues: o.security.encryptValues,
	}
	s.TokenFile, s.Join = o.security.token, daemonflags.List(o.security.join)
	if s.Socket == "" {
		s.Socket, s.SocketOptional = defaultSocket, true
	}
	s.Own = o.security.own
	var found []error
	if s.LeafLife = o.security.leafLife; s.LeafLife < shortestLife || s.LeafLife > pki.LeafLife {
		found = append(found, fmt.Errorf("--leaf-life %s: want %s to %s", s.LeafLife, shortestLife, pki.LeafLife))
	}
	if s.Founding = o.founding(); s.Secure && o.security.insecure {
		found = append(found, fmt.Errorf("--secure, --insecure: want one of them at most"))
	}
	if s.EncryptValues && s.Dir == "" {
		found = append(found, fmt.Errorf("--encrypt-values: needs --pki-dir, where the keys are"))
	}
	if s.PlainLoopback = o.security.plainLoopback; s.PlainLoopback != "" && !slices.Contains(rights.Roles(), s.PlainLoopback) {
		found = append(found, fmt.Errorf("--plain-loopback %q: want one of %v", s.PlainLoopback, rights.Roles()))
	}
	if err := s.Own.Check(); err != nil {
		found = append(found, err)
	}
	for _, at := range s.Join {
		if err := daemonflags.CheckAddress(at); err != nil {
			found = append(found, fmt.Errorf("--join: %w", err))
		}
	}
	if len(s.Join) > 0 && s.TokenFile == "" {
		found = append(found, fmt.Errorf("--join: needs --join-token-file"))
	}
	var err error
	if s.Name, err = o.name(); err != nil {
		found = append(found, err)
	}
	if (s.Founding == mastercfg.SecurityEnforced || s.TokenFile != "") && s.Dir == "" {
		found = append(found, fmt.Errorf("--pki-dir: a cluster that is not open, and --join-token-file, need a directory"))
	}
	if s.AuthProxy != "" {
		if err := daemonflags.CheckAddress(s.AuthProxy); err != nil {
			found = append(found, fmt.Errorf("--auth-proxy-address: %w", err))
		}
	}
	for _, at := range []string{o.external, o.internal, cmp.Or(s.AuthProxy, o.external)} {
		name, _, _ := net.SplitHostPort(at)
		reached(&s, name)
	}
	for _, own := range append(hostaddr.All(), daemonflags.List(o.security.names)...) {
		reached(&s, own)
	}
	return s, found
}

// name returns the name of this netmaster in the cluster: that of its node if Kubernetes authenticates it, else of
// its host.
func (o *options) name() (string, error) {
	if node := os.Getenv("NODE_NAME"); o.security.podToken != "" && node != "" {
		if !identity.ValidName(node) {
			return "", fmt.Errorf("NODE_NAME %.300q: want the name of the node, by which Kubernetes vouches for --join-pod-token-file", node)
		}
		return node, nil
	}
	host, err := os.Hostname()
	if err != nil || !identity.ValidName(host) {
		return "netmaster", nil // removing a member by this name removes all that share it
	}
	return host, nil
}

// founding returns the security mode of a new cluster. Every client of an etcd without TLS controls the cluster,
// whatever netmasters require of clients: there, operators have to decide.
func (o *options) founding() mastercfg.SecurityMode {
	closed := o.security.secure || o.embeddedDir != "" || o.common.Store.CertFile != ""
	if closed && !o.security.insecure {
		return mastercfg.SecurityEnforced
	}
	return mastercfg.SecurityOpen
}

// reached adds a name or an address to those in the certificate.
func reached(s *daemon.Security, at string) {
	addr, err := netip.ParseAddr(at)
	switch {
	case at == "" || err == nil && (addr.IsUnspecified() || addr.IsLoopback() || slices.Contains(s.Addresses, addr)):
	case err == nil:
		s.Addresses = append(s.Addresses, addr)
	case !slices.Contains(s.Names, at):
		s.Names = append(s.Names, at)
	}
}
