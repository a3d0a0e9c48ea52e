package embedded

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/etcdserver"

	"github.com/contiv/netplugin/utils/fault"
)

// answerTime is how long a member may take to answer another one before it counts as missing.
const answerTime = 3 * time.Second

// Missing returns the other members of the cluster that do not answer this one at their peer URLs: their names, or
// the peer URL of a member that has never been started. Client URLs would not do: one may be for its own machine
// only. A member whose disk hangs answers, but takes no part: each is asked for what it has to agree on with a majority.
func (s *Server) Missing(ctx context.Context) (missing []string, err error) {
	way, err := transport.NewTimeoutTransport(s.cfg.tls(), answerTime, answerTime, answerTime)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "embedded etcd: ask the other members: %w", err)
	}
	defer way.CloseIdleConnections()
	client := &http.Client{Transport: way, Timeout: answerTime}
	all := s.etcd.Server.Cluster().Members()
	silent := make([]bool, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		if m.ID != s.etcd.Server.MemberID() {
			asked.Go(func() { silent[i] = m.Name == "" || answers(ctx, client, m.PeerURLs) != nil })
		}
	}
	asked.Wait()
	for i, m := range all {
		if silent[i] {
			missing = append(missing, cmp.Or(m.Name, strings.Join(m.PeerURLs, ", ")))
		}
	}
	return missing, ctx.Err()
}

// answers returns nil if a member answers at one of its peer URLs, and reads together with a majority.
func answers(ctx context.Context, client *http.Client, urls []string) (err error) {
	for _, url := range urls {
		if err = agrees(ctx, client, url); err == nil {
			return nil
		}
	}
	return err
}

// agrees asks a member for something small that etcd reads linearizably.
func agrees(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+etcdserver.DowngradeEnabledPath, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
