package daemon

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/rootsocket"
)

// listeners opens the addresses and the socket that this netmaster serves on. After an error
// none of them is open.
func (d *Daemon) listeners() (opened []net.Listener, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, l := range opened {
			err = errors.Join(err, l.Close())
		}
	}()
	security := d.cfg.Security
	open := func(address string, onlyTLS bool) error {
		l, err := net.Listen("tcp", address)
		if err == nil {
			opened = append(opened, d.encrypts(l, onlyTLS))
		}
		return err
	}
	if err := open(d.cfg.Listen, false); err != nil {
		return opened, err
	}
	if !covers(d.cfg.Listen, d.cfg.Control) {
		if err := open(d.cfg.Control, false); err != nil {
			return opened, err
		}
	}
	if security.AuthProxy != "" {
		if err := open(security.AuthProxy, true); err != nil {
			return opened, err
		}
	}
	if security.Socket == "" {
		return opened, nil
	}
	switch l, err := rootsocket.Listen(security.Socket, d.log); {
	case err == nil:
		opened = append(opened, encrypting{Listener: l})
	case security.SocketOptional:
		d.log.WithError(err).Warn("root of this machine is not served on a socket")
	default:
		return opened, err
	}
	return opened, nil
}

// otherPorts returns the ports of its listeners that are not in its registered address. Nodes keep endpoints off them.
func (d *Daemon) otherPorts() (others []int) {
	_, registered, _ := net.SplitHostPort(d.cfg.Control)
	for _, address := range []string{d.cfg.Listen, d.cfg.Security.AuthProxy} {
		_, text, _ := net.SplitHostPort(address)
		if port, err := strconv.Atoi(text); err == nil && text != registered && !slices.Contains(others, port) {
			others = append(others, port)
		}
	}
	return others
}

// encrypts wraps a listener so that it serves TLS, and plain HTTP unless it is for TLS only.
func (d *Daemon) encrypts(l net.Listener, tlsOnly bool) net.Listener {
	return encrypting{
		Listener: l, config: d.certificates.server(), hasCertificate: d.certificates.serves, gate: d.gate.Take, tlsOnly: tlsOnly,
		servesPlain: d.servesPlain, handshakes: d.handshakes,
	}
}

// servesPlain reports whether requests over plain HTTP are served.
func (d *Daemon) servesPlain() bool {
	is := d.mode.current()
	return is == mastercfg.SecurityOpen || is == mastercfg.SecurityPermissive
}

// covers reports whether a listener on external also gets connections to control.
func covers(external, control string) bool {
	host, port, err := net.SplitHostPort(external)
	if err != nil {
		return false
	}
	_, controlPort, err := net.SplitHostPort(control)
	if err != nil || port != controlPort {
		return false
	}
	ip := net.ParseIP(host)
	return external == control || host == "" || ip != nil && ip.IsUnspecified()
}
