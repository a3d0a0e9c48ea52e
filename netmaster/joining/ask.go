package joining

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// useless is the refusal of a revoked key.
type useless struct{ error }

func (e useless) Unwrap() error { return e.error }

// Useless reports whether a netmaster has refused the caller's key as revoked: with another one the caller may
// join.
func Useless(err error) bool { return errors.As(err, new(useless)) }

const (
	askTime   = 10 * time.Second // for a request to one netmaster
	maxAnswer = 256 << 10        // bytes
)

// post sends a request over a connection verified by CAs.
func post(ctx context.Context, authorities *x509.CertPool, address, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return ask(ctx, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authorities}, http.MethodPost, address, path, body, answer)
}

// ask sends a request over a connection of its own.
func ask(ctx context.Context, conf *tls.Config, method, address, path string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", fault.ProblemType+", application/json")
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the request may contain a secret
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
		if p, ok := fault.ReadProblem(resp.Header.Get("Content-Type"), content); ok {
			refused := p.Fault()
			if refused.Kind == fault.Denied && refused.Field == mastercfg.KeyField {
				return useless{refused}
			}
			return refused
		}
		return fault.New(fault.Internal, "%s: %.200s", resp.Status, strings.TrimSpace(string(content)))
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fault.New(fault.Internal, "answer to %s: %w", path, err)
	}
	return nil
}
