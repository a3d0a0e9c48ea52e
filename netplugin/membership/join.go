package membership

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/durable"
)

// joinAnew joins again if the node may not renew its certificate, with the same key unless that is revoked.
func (m *Member) joinAnew(ctx context.Context, refused error) error {
	if m.cfg.TokenFile == "" {
		return fmt.Errorf("%w; to join anew it needs --join-token-file", refused)
	}
	join := m.join
	if joining.Useless(refused) {
		join = m.joinWithNewKey
	}
	if err := join(ctx); err != nil {
		return fmt.Errorf("%w; nor can it join anew: %w", refused, err)
	}
	return nil
}

// joinElsewhere joins again, with the addresses that the node has now.
func (m *Member) joinElsewhere(ctx context.Context) error {
	if err := m.join(ctx); err != nil {
		return fmt.Errorf("the node has not joined with its addresses (%s, tunnels %s), and cannot do it now: %w",
			m.cfg.Control, strings.Join(m.cfg.VTEPs, ", "), err)
	}
	return nil
}

// join joins with the node's key, or with another one if that is revoked.
func (m *Member) join(ctx context.Context) error {
	answer, err := m.joinWith(ctx, m.key)
	if joining.Useless(err) {
		return m.joinWithNewKey(ctx)
	}
	if err != nil {
		return err
	}
	return m.keep(answer)
}

// joinWithNewKey joins with a new key. The node keeps the old key until it has joined, so that a failed join
// changes nothing.
func (m *Member) joinWithNewKey(ctx context.Context) error {
	next := m.path(nextKeyFile)
	key, err := pki.OpenKey(next)
	if err != nil {
		return err
	}
	answer, err := m.joinWith(ctx, key)
	if joining.Useless(err) {
		return errors.Join(err, durable.Remove(next)) // the next attempt creates another one
	}
	if err != nil {
		return err
	}
	text, err := pki.ReadSecret(next)
	if err != nil {
		return err
	}
	// From here to the end of keep it counts as a node that has not joined, and requests again as the same node.
	if err := durable.Remove(m.path(AuthorityFile)); err != nil {
		return err
	}
	if err := durable.Write(m.path(keyFile), text); err != nil {
		return err
	}
	m.key = key
	if err := m.keep(answer); err != nil {
		return err
	}
	return durable.Remove(next)
}

// joinWith sends the token and the key to the first netmaster that proves to belong to the cluster.
func (m *Member) joinWith(ctx context.Context, key *ecdsa.PrivateKey) (answer mastercfg.JoinResponse, err error) {
	text, err := pki.ReadSecret(m.cfg.TokenFile)
	if err != nil {
		return answer, err
	}
	csr, err := pki.Request(key)
	if err != nil {
		return answer, err
	}
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return answer, err
	}
	answer, err = m.sendToken(ctx, masters, string(text), mastercfg.JoinRequest{Host: m.cfg.Host, CSR: csr, Addresses: m.cfg.Addresses, VTEPs: m.cfg.VTEPs})
	if err == nil {
		m.known = ""
		m.cfg.Log.WithFields(logrus.Fields{"host": m.cfg.Host, "cluster": answer.Cluster}).Info("the node has joined")
	}
	return answer, err
}

// sendToken sends the token to a netmaster that proves to belong to the cluster: by the pin in the token, or by
// the node's CAs.
func (m *Member) sendToken(ctx context.Context, masters []string, text string, request mastercfg.JoinRequest) (answer mastercfg.JoinResponse, err error) {
	if m.cfg.AuthoritiesFile != "" && !jointoken.Is(text) {
		authorities, err := pki.ReadFile(m.cfg.AuthoritiesFile)
		if err != nil {
			return answer, err
		}
		trusted, err := pki.Pool(authorities)
		if err != nil {
			return answer, fmt.Errorf("%s: %w", m.cfg.AuthoritiesFile, err)
		}
		return joining.JoinVouched(ctx, masters, trusted, strings.TrimSpace(text), request)
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", m.cfg.TokenFile, err)
	}
	return joining.Join(ctx, masters, token, request)
}

// renew requests another certificate. The key is sufficient proof: the old certificate may have expired.
func (m *Member) renew(ctx context.Context) error {
	csr, err := pki.Request(m.key)
	if err != nil {
		return err
	}
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return err
	}
	request := mastercfg.RenewRequest{Host: m.cfg.Host, CSR: csr, VTEPs: m.cfg.VTEPs}
	if m.cfg.Control != "" {
		request.Addresses = []string{m.cfg.Control}
	}
	answer, err := joining.Renew(ctx, masters, m.held.Load().roots, request)
	if err != nil {
		return err
	}
	return m.keep(answer)
}

// keep stores the answer of a netmaster and uses it.
func (m *Member) keep(answer mastercfg.JoinResponse) error {
	if err := m.use([]byte(answer.Certificate), []byte(answer.Authorities), []byte(answer.Clients)); err != nil {
		return err
	}
	m.elsewhere = answer.Elsewhere
	if err := durable.Write(m.path(certificateFile), []byte(answer.Certificate)); err != nil {
		return err
	}
	if answer.Clients != "" {
		if err := durable.Write(m.path(clientsFile), []byte(answer.Clients)); err != nil {
			return err
		}
	}
	return durable.Write(m.path(AuthorityFile), []byte(answer.Authorities))
}
