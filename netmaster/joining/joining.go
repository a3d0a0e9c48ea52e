// Package joining is the client side of joining a cluster.
//
// A machine that joins does not know the cluster yet. It requests the cluster's CAs without trusting the answer,
// compares them with the pin in its token, and sends the token only over a connection that these CAs verify
// (Join); or it has the CAs from elsewhere (JoinVouched). A machine that has joined renews its certificate over a
// connection that it can verify itself (Renew).
package joining

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

// Join sends a token to the first of several netmasters, host:port, that proves to be of the token's cluster. It
// fills in the token of the request.
func Join(ctx context.Context, masters []string, token jointoken.Token, request mastercfg.JoinRequest) (answer mastercfg.JoinResponse, err error) {
	request.Token = token.Text()
	err = inTurn(masters, func(address string) error {
		authorities, err := fetch(ctx, address, token.Pin)
		if err != nil {
			return err
		}
		return post(ctx, authorities, address, mastercfg.JoinPath, request, &answer)
	})
	return answer, err
}

// JoinVouched sends a token that others verify, such as the API server of Kubernetes for a service account token.
// It has no pin: the machine has the CAs of the cluster from elsewhere.
func JoinVouched(ctx context.Context, masters []string, authorities *x509.CertPool, token string, request mastercfg.JoinRequest) (answer mastercfg.JoinResponse, err error) {
	request.Token = token
	err = inTurn(masters, func(address string) error {
		return post(ctx, authorities, address, mastercfg.JoinPath, request, &answer)
	})
	return answer, err
}

// Renew requests another certificate. The key in the request is sufficient proof: the old certificate may have
// expired.
func Renew(ctx context.Context, masters []string, authorities *x509.CertPool, request mastercfg.RenewRequest) (answer mastercfg.JoinResponse, err error) {
	err = inTurn(masters, func(address string) error {
		return post(ctx, authorities, address, mastercfg.RenewPath, request, &answer)
	})
	return answer, err
}

// inTurn asks netmasters in turn until one succeeds; it returns all errors if none does. If one has refused, which it
// does in the name of the cluster, the kind of the error is fault.Denied, although others may not have answered.
func inTurn(masters []string, ask func(address string) error) error {
	var failed error
	for _, address := range masters {
		err := ask(address)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("netmaster at %s: %w", address, err)
		if fault.Is(err, fault.Denied) {
			failed = errors.Join(err, failed) // the first one has the kind
		} else {
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil {
		return fault.New(fault.Unavailable, "no netmaster is registered")
	}
	return failed
}

// fetch returns the CA that has the pin. It trusts nothing of the connection, and sends no secret on it.
func fetch(ctx context.Context, address, pin string) (*x509.CertPool, error) {
	var answer mastercfg.Authority
	// The answer is compared with the pin.
	unverified := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
	if err := ask(ctx, unverified, http.MethodGet, address, mastercfg.AuthorityPath, nil, &answer); err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates([]byte(answer.Authorities))
	if err != nil {
		return nil, err
	}
	for _, c := range certs {
		if pki.KeyHash(c) == pin {
			pool := x509.NewCertPool()
			pool.AddCert(c)
			return pool, nil
		}
	}
	return nil, fault.New(fault.Denied, "it is not of the cluster that the join token is for: its authority has another pin")
}

// Known returns the hash (pki.Authorities.Hash) of the CAs by which the netmasters of a cluster are verified now.
func Known(ctx context.Context, masters []string, authorities *x509.CertPool) (hash string, err error) {
	err = inTurn(masters, func(address string) error {
		var answer mastercfg.Authority
		if err := ask(ctx, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authorities}, http.MethodGet, address, mastercfg.AuthorityPath, nil, &answer); err != nil {
			return err
		}
		certs, err := pki.ParseCertificates([]byte(answer.Authorities))
		hash = pki.HashOf(certs)
		return err
	})
	return hash, err
}

// Authorities returns the CAs with their keys, which a netmaster sends another one.
func Authorities(ctx context.Context, asMaster *tls.Config, address string) (files map[string]string, err error) {
	var answer mastercfg.HandedAuthorities
	err = ask(ctx, asMaster, http.MethodGet, address, mastercfg.AuthoritiesPath, nil, &answer)
	return answer.Files, err
}

// AddMember asks the netmasters of a cluster for a member of their embedded store. Only the leader itself answers:
// the identity of a netmaster is not forwarded. The result is embedded.Config.Peers of the member.
func AddMember(ctx context.Context, asMaster *tls.Config, masters []string, request mastercfg.AddMemberRequest) (peers map[string]string, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	err = inTurn(masters, func(address string) error {
		var answer mastercfg.AddMemberResponse
		err := ask(ctx, asMaster, http.MethodPost, address, mastercfg.StoreMembersPath, body, &answer)
		peers = answer.Peers
		return err
	})
	return peers, err
}

// Cluster returns the id of the cluster in the certificate of one of the netmasters; empty if none presents one in
// time. The certificates are not verified: it is for a netmaster that would otherwise found another cluster.
func Cluster(ctx context.Context, masters []string) (cluster string) {
	ctx, cancel := context.WithTimeout(ctx, clusterTime)
	defer cancel()
	said := make(chan string, len(masters))
	for _, address := range masters {
		go func() { said <- clusterAt(ctx, address) }()
	}
	for range masters { // each ends with ctx at the latest
		cluster = cmp.Or(<-said, cluster)
	}
	return cluster
}

// clusterTime is the time limit for netmasters to present their certificates.
const clusterTime = 3 * time.Second

func clusterAt(ctx context.Context, address string) string {
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	for _, uri := range conn.(*tls.Conn).ConnectionState().PeerCertificates[0].URIs {
		if cluster, who, err := identity.ParseURI(uri.String()); err == nil && who.Kind == identity.Master {
			return cluster
		}
	}
	return ""
}
