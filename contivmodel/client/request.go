package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/contiv/netplugin/utils/fault"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// accept asks for errors with a kind; servers that know none ignore it.
const accept = "application/json, application/problem+json"

// do sends a request to the servers in turn, until one has dealt with it, and
// decodes the answer into result unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, body []byte, result any) error {
	first := int(c.current.Load())
	var failed error
	for i := range c.bases {
		at := (first + i) % len(c.bases)
		answer, again, err := c.attempt(ctx, c.bases[at], method, path, body)
		if err == nil {
			c.current.Store(int32(at))
			return decode(c.bases[at], path, answer, result)
		}
		failed = either(failed, err)
		if !again || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// attempt sends a request to one server. It tells whether the request may go
// to another server: always if this one cannot have received it, else only if
// it changes nothing and the failure is the server's.
func (c *Client) attempt(ctx context.Context, base *url.URL, method, path string, body []byte) (answer []byte, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	answer, err = c.exchange(ctx, base, method, path, body)
	kind := fault.KindOf(err)
	again = kind == fault.Unavailable || kind == fault.NotLeader
	return answer, again && (method == http.MethodGet || !connected.Load()), err
}

// exchange sends one request over one connection and reads the whole answer.
func (c *Client) exchange(ctx context.Context, base *url.URL, method, path string, body []byte) ([]byte, error) {
	target := base.String() + path
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s %s: %w", method, target, err)
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" && base.Scheme == "https" {
		req.Header.Set("X-Auth-Token", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(base, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(base, err)
	case len(answer) > maxAnswer:
		return nil, fault.New(fault.TooLarge, "%s: answer exceeds %d MiB", target, maxAnswer>>20)
	case resp.StatusCode != http.StatusOK:
		return nil, refusal(resp, answer)
	}
	return answer, nil
}

// unreachable says which server cannot be talked to, and why in plain words.
func unreachable(base *url.URL, err error) error {
	var (
		cause    = err
		wrapped  *url.Error
		unsigned *tls.CertificateVerificationError
	)
	if errors.As(err, &wrapped) {
		cause = wrapped.Err // method and URL are said already
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "cannot reach netmaster at %s: no answer in time: %w", base, cause)
	case errors.As(err, &unsigned):
		return fault.New(fault.Unavailable, "cannot reach netmaster at %s: certificate refused: %w", base, unsigned.Err)
	}
	return fault.New(fault.Unavailable, "cannot reach netmaster at %s: %w", base, cause)
}

// either joins the failures of several servers into one message.
func either(before, err error) error {
	if before == nil {
		return err
	}
	last := fault.As(err)
	joined := fault.New(last.Kind, "%w; %w", before, err).WithDetails(last.Details...)
	joined.Field = last.Field
	return joined
}

// decode reads an answer.
func decode(base *url.URL, path string, answer []byte, result any) error {
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fault.New(fault.Internal, "%s%s: answer cannot be understood: %w", base, path, err)
	}
	return nil
}

// pathOf builds the path of a kind's collection, or of one of its objects.
func pathOf(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return "/api/v1/" + strings.Join(escaped, "/") + "/"
}

// checkKey refuses keys that cannot stand in a path as one segment.
func checkKey(key string) error {
	switch {
	case key == "":
		return fault.New(fault.Invalid, "empty key").WithField("key")
	case key == "." || key == ".." || strings.ContainsAny(key, "/\\") || strings.ContainsFunc(key, isControl):
		return fault.New(fault.Invalid, "key %q: no object can have it", key).WithField("key")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
