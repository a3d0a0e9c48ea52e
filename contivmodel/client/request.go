package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// maxAnswer limits how many bytes of a response are read.
const maxAnswer = 64 << 20

// maxRedirects is how often a server may redirect a request to another of its paths.
const maxRedirects = 5

// accept requests errors with a kind; servers without them ignore it.
const accept = "application/json, " + fault.ProblemType

// request is what is sent; path may end in a query.
type request struct {
	method, path string
	body         []byte
	header       map[string]string // in addition to the common ones
}

// do sends a request without special headers and decodes the response into result unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, body []byte, result any) error {
	_, err := c.send(ctx, request{method: method, path: path, body: body}, result)
	return err
}

// send sends a request to the servers in turn until one has handled it, decodes the response into result unless
// that is nil, and returns its header. A request refused by the rate limit is repeated, within the time limit of
// one attempt.
func (c *Client) send(ctx context.Context, req request, result any) (http.Header, error) {
	var header http.Header
	for waited := time.Duration(0); ; {
		err := c.inTurn(ctx, func(base *server) (again bool, err error) {
			var answer []byte
			answer, header, again, err = c.attempt(ctx, base, req)
			if err == nil {
				err = decode(base, req.path, answer, result)
			}
			return again, err
		})
		early := earlyBy(err)
		if waited += early; early == 0 || waited > c.timeout {
			return header, err
		}
		select {
		case <-time.After(early):
		case <-ctx.Done():
			return header, err
		}
	}
}

// inTurn tries the servers, beginning with the one that answered last, until one succeeds or fails finally.
func (c *Client) inTurn(ctx context.Context, try func(base *server) (again bool, err error)) error {
	first := c.awake(ctx)
	var failed error
	for i := range c.bases {
		at := (first + i) % len(c.bases)
		again, err := try(c.bases[at])
		if err == nil {
			c.current.Store(int32(at + 1))
			return nil
		}
		failed = either(failed, err)
		if !again || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// awake returns the server to begin with: the one that answered last or, at first, one of several that answers at
// all. A server that accepts connections without answering would use up the whole timeout, and a change requested
// from it could not be sent to another server.
func (c *Client) awake(ctx context.Context) int {
	if last := int(c.current.Load()); last > 0 || len(c.bases) == 1 {
		return max(last-1, 0)
	}
	for i, base := range c.bases {
		ctx, cancel := context.WithTimeout(ctx, min(wakeTimeout, c.timeout))
		resp, err := c.open(ctx, base, request{method: http.MethodGet, path: "/version"})
		if err == nil {
			resp.Body.Close()
			c.current.CompareAndSwap(0, int32(i+1))
		}
		cancel()
		if err == nil {
			return i
		}
	}
	return 0
}

// attempt sends a request to one server. again reports whether the request may be sent to another server: always
// if this one cannot have received it, else only if it changes nothing and the failure is the server's.
func (c *Client) attempt(ctx context.Context, base *server, req request) (answer []byte, header http.Header, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	answer, header, err = c.exchange(ctx, base, req)
	again = elsewhere(err) && earlyBy(err) == 0 && (req.method == http.MethodGet || !connected.Load())
	return answer, header, again, err
}

// elsewhere reports whether another server may succeed.
func elsewhere(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.Unavailable || kind == fault.NotLeader
}

// exchange sends one request over one connection and reads the whole response.
func (c *Client) exchange(ctx context.Context, base *server, req request) ([]byte, http.Header, error) {
	resp, err := c.open(ctx, base, req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, unreachable(base, err)
	case len(answer) > maxAnswer:
		return nil, nil, fault.New(fault.TooLarge, "%s%s: answer exceeds %d MiB", base, req.path, maxAnswer>>20)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusNoContent:
		return nil, nil, refusal(resp, answer)
	}
	for _, value := range resp.Header.Values(contivmodel.WarningHeader) {
		if text := contivmodel.ParseWarning(value); text != "" && c.warn != nil {
			c.warn(text)
		}
	}
	return answer, resp.Header, nil
}

// open sends one request and returns the beginning of the response, whatever its status.
func (c *Client) open(ctx context.Context, base *server, req request) (*http.Response, error) {
	target := base.URL.String() + req.path
	r, err := http.NewRequestWithContext(ctx, req.method, target, bytes.NewReader(req.body))
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s %s: %w", req.method, target, err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set(contivmodel.RequestIDHeader, rand.Text())
	if req.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if base.token != "" && base.Scheme == "https" {
		r.Header.Set("X-Auth-Token", base.token)
	}
	for name, value := range req.header {
		r.Header.Set(name, value)
	}
	resp, err := base.http.Do(r)
	switch misled := fault.As(err); {
	case misled != nil:
		return nil, misled
	case err != nil:
		return nil, unreachable(base, err)
	}
	return resp, nil
}

// redirected refuses redirects to another server: a request that changes something would become a read, and no
// other server may receive the token. Reads may be redirected to another path of the same server.
func redirected(to *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case first.Method != http.MethodGet:
		return fault.New(fault.Invalid, "%s %s: the server redirects to %s, where changes are not sent: is that the URL of netmaster?",
			first.Method, first.URL, to.URL)
	case to.URL.Scheme != first.URL.Scheme || to.URL.Host != first.URL.Host:
		return fault.New(fault.Invalid, "GET %s: the server redirects to %s, another server: is that the URL of netmaster?", first.URL, to.URL)
	case len(via) >= maxRedirects:
		return fault.New(fault.Unavailable, "GET %s: redirected %d times, at last to %s", first.URL, len(via), to.URL)
	}
	return nil
}

// ErrUnreachable is in the chain of an error if no netmaster has answered.
var ErrUnreachable = errors.New("cannot reach netmaster")

// unreachable returns an error that names the server and the cause.
func unreachable(base *server, err error) error {
	var (
		cause    = err
		wrapped  *url.Error
		unsigned *tls.CertificateVerificationError
	)
	if errors.As(err, &wrapped) {
		cause = wrapped.Err // method and URL are already in the message
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "%w at %s: no answer in time: %w", ErrUnreachable, base, cause)
	case errors.As(err, &unsigned):
		return fault.New(fault.Unavailable, "%w at %s: certificate refused: %w", ErrUnreachable, base, unsigned.Err)
	}
	return fault.New(fault.Unavailable, "%w at %s: %w", ErrUnreachable, base, cause)
}

// either joins the failures of several servers into one message.
func either(before, err error) error {
	if before == nil {
		return err
	}
	last := fault.As(err)
	return fault.New(last.Kind, "%w; %w", before, err).WithField(last.Field).WithDetails(last.Details...).WithRequest(fault.RequestOf(err))
}

// decode decodes a response.
func decode(base *server, path string, answer []byte, result any) error {
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

// checkKey refuses keys that cannot be one segment of a path.
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
