package membership

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	askTime   = 10 * time.Second // for one question to one netmaster
	maxAnswer = 256 << 10        // bytes
)

// inTurn asks netmasters until one has answered as it should.
func (m *Member) inTurn(ctx context.Context, ask func(address string) error) error {
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, address := range masters {
		if err = ask(address); err == nil {
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("netmaster at %s: %w", address, err))
	}
	if failed == nil {
		return fault.New(fault.Unavailable, "no netmaster is registered")
	}
	return failed
}

// fetch gets the authority that has the pin. Nothing is believed of the connection, and
// nothing is said on it.
func fetch(ctx context.Context, address, pin string) (*x509.CertPool, error) {
	var answer mastercfg.Authority
	// What comes is compared with the pin.
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

func post(ctx context.Context, conf *tls.Config, address, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return ask(ctx, conf, http.MethodPost, address, path, body, answer)
}

// ask sends one request over a connection of its own.
func ask(ctx context.Context, conf *tls.Config, method, address, path string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/problem+json, application/json")
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a secret is for nobody else
	}
	resp, err := client.Do(req)
	if err != nil {
		return fault.New(fault.Unavailable, "%w", err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fault.New(fault.Unavailable, "answer to %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Reason, Message string }
		if json.Unmarshal(content, &problem) == nil && problem.Message != "" {
			return fault.New(fault.ParseKind(problem.Reason), "%s", problem.Message)
		}
		return fault.New(fault.Internal, "%s: %.200s", resp.Status, strings.TrimSpace(string(content)))
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fault.New(fault.Internal, "answer to %s: %w", path, err)
	}
	return nil
}
