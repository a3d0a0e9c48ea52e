package k8sutils

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// dialTimeout is how long an API server may take to accept a connection, if there is another one.
const dialTimeout = 5 * time.Second

// servers are the equivalent API servers of a cluster.
type servers []*url.URL

// parseServers parses base URLs separated by commas.
func parseServers(text string) (all servers, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		server, err := url.Parse(part)
		if err != nil || server.Host == "" || (server.Scheme != "https" && server.Scheme != "http") {
			return nil, fault.New(fault.Invalid, "K8S_API_SERVER %q: want http(s)://host:port, several with commas between them", part)
		}
		if len(all) > 0 && (server.Scheme != all[0].Scheme || server.Path != all[0].Path) {
			return nil, fault.New(fault.Invalid, "K8S_API_SERVER %q: want the scheme and the path of the first one, %q", part, all[0])
		}
		all = append(all, server)
	}
	return all, nil
}

// failover sends requests to one of several API servers: to the last one that was reached, and to the next one if
// no part of the request can have arrived. After a response that the server cannot serve, as without its store,
// the next request is sent to another server.
type failover struct {
	servers servers
	next    http.RoundTripper
	good    atomic.Int64 // index of the server to try first
}

// RoundTrip implements http.RoundTripper.
func (f *failover) RoundTrip(r *http.Request) (*http.Response, error) {
	var failed []error
	first := f.good.Load()
	for i := range int64(len(f.servers)) {
		at := (first + i) % int64(len(f.servers))
		server := f.servers[at]
		attempt, err := again(r, i)
		if err != nil {
			return nil, errors.Join(append(failed, err)...)
		}
		attempt.URL.Scheme, attempt.URL.Host, attempt.Host = server.Scheme, server.Host, ""
		answer, err := f.next.RoundTrip(attempt)
		if err == nil {
			if answer.StatusCode >= http.StatusInternalServerError {
				at = (at + 1) % int64(len(f.servers)) // a retry uses another server
			}
			f.good.CompareAndSwap(first, at)
			return answer, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", server.Host, err))
		if r.Context().Err() != nil {
			break
		}
		if notReached := new(net.OpError); !errors.As(err, &notReached) || notReached.Op != "dial" {
			f.good.CompareAndSwap(first, (at+1)%int64(len(f.servers))) // a retry uses another server
			break
		}
	}
	return nil, errors.Join(failed...)
}

// again returns the request for the first or a further attempt.
func again(r *http.Request, attempt int64) (*http.Request, error) {
	same := r.Clone(r.Context())
	if attempt == 0 || r.Body == nil || r.Body == http.NoBody {
		return same, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("the request cannot be sent once more")
	}
	var err error
	same.Body, err = r.GetBody()
	return same, err
}
