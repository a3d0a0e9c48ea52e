package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	priceGoal    = 0.9 // of the rate without TLS
	priceRounds  = 5   // of each side, alternating; the median counts
	handshakes   = 300 // requests on new connections, of each side, alternating
	handshakeMax = 5 * time.Millisecond
)

// benchPrice compares the service of netmaster for a node with a certificate with the same over plain HTTP, which
// --plain-loopback enables in an enforced cluster. Each measurement has one client without a rate limit.
func benchPrice(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	n := bed.Nodes[0]
	if err := n.Netmaster().Terminate(); err != nil {
		return nil, err
	}
	if err := n.StartNetmaster("--plain-loopback", "admin", "--client-rate", "0"); err != nil {
		return nil, err
	}
	if err := testkit.Poll(ctx, func() error { _, err := bed.Leader(ctx); return err }); err != nil {
		return nil, err
	}
	return insideLeader("price")(ctx, bed)
}

// Both are on the loopback.
const (
	pricePlain  = "http://127.0.0.1:9999"
	priceMutual = "https://127.0.0.1:9999"
)

func measurePrice(ctx context.Context, s *site) ([]figure, error) {
	undo, err := s.prepare(ctx, wideNetworks("load")...)
	if err != nil {
		return nil, err
	}
	conf, err := s.nodeTLS(ctx, "loadhost")
	if err != nil {
		return nil, err
	}
	client := func(conf *tls.Config, kept bool) *http.Client {
		return &http.Client{Timeout: siteTime, Transport: &http.Transport{TLSClientConfig: conf, MaxIdleConnsPerHost: 64, DisableKeepAlives: !kept}}
	}
	plain, mutual := &site{url: pricePlain, http: client(nil, true)}, &site{url: priceMutual, http: client(conf, true)}
	var figures []figure
	for _, clients := range []int{16, 64} {
		rates := map[*site][]float64{}
		for range priceRounds {
			for _, side := range []*site{plain, mutual} {
				rate, err := side.endpointRate(ctx, clients, wideCount)
				if err != nil {
					return nil, err
				}
				rates[side] = append(rates[side], rate)
			}
		}
		ratio := median(rates[mutual]) / median(rates[plain])
		figures = append(figures, figure{
			Name:  fmt.Sprintf("createEndpoint over mutual TLS, %d clients", clients),
			Value: fmt.Sprintf("%.0f/s", median(rates[mutual])), Reference: fmt.Sprintf("plain %.0f/s", median(rates[plain])),
			Ratio: fmt.Sprintf("%.2f", ratio), Goal: fmt.Sprintf("at least %.1f", priceGoal), Met: ratio >= priceGoal,
		})
	}
	fresh := []*site{{url: pricePlain, http: client(nil, false)}, {url: priceMutual, http: client(conf, false)}}
	took := make([][]time.Duration, len(fresh))
	for range handshakes {
		for i, side := range fresh {
			one, err := timed(func() error { _, err := side.do(ctx, http.MethodGet, logins.WhoAmIPath, nil); return err })
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], one)
		}
	}
	without, with := scenario.Percentile(took[0], 50), scenario.Percentile(took[1], 50)
	return append(figures, figure{
		Name:  "a request on a new connection with mutual TLS, p50",
		Value: inMS(with), Reference: "plain " + inMS(without), Ratio: "+" + inMS(with-without),
		Goal: "at most +" + inMS(handshakeMax), Met: with-without <= handshakeMax,
	}), undo(ctx)
}

// nodeTLS joins a node to the cluster, and returns its TLS configuration for netmasters.
func (s *site) nodeTLS(ctx context.Context, host string) (*tls.Config, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+mastercfg.JoinTokensPath, bytes.NewReader([]byte(`{"role":"node"}`)))
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal(text, &shown); err != nil || shown.Token == "" {
		return nil, fmt.Errorf("%s: %s: %w", mastercfg.JoinTokensPath, text, err)
	}
	dir, err := os.MkdirTemp("/run", "price-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // no longer needed after joining
	c := &crowd{masters: []string{priceMutual}, dir: dir, token: filepath.Join(dir, "token"), log: testkit.Quiet()}
	if err := os.WriteFile(c.token, []byte(shown.Token), 0o600); err != nil {
		return nil, err
	}
	member, err := c.enlist(ctx, host, netip.MustParseAddr("10.201.0.4"))
	if err != nil {
		return nil, err
	}
	return member.TLS(), nil
}
