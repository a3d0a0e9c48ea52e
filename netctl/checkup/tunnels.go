package checkup

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/contiv/netplugin/contivmodel"
)

// tunnels are the reports of nodes about the others: by host and other host, whether the other answers through the
// tunnel. A node of an earlier release has no report, and answers none.
type tunnels map[string]map[string]bool

// askTunnels queries all nodes concurrently.
func askTunnels(ctx context.Context, m Master, nodes []contivmodel.NodeStatus, port int) tunnels {
	var mu sync.Mutex
	var asking sync.WaitGroup
	all := tunnels{}
	for _, n := range nodes {
		if !n.Registered {
			continue
		}
		asking.Go(func() {
			var says map[string]bool
			answer, err := agentOf(m, n, port).get(ctx, "/inspect/tunnels")
			if err != nil || json.Unmarshal(answer, &says) != nil {
				return // its agent is of an earlier release or failed, which other checks report
			}
			mu.Lock()
			defer mu.Unlock()
			all[n.Host] = says
		})
	}
	asking.Wait()
	return all
}

// check checks that a node has a tunnel to each other node, and that these answer.
func (t tunnels) check(n contivmodel.NodeStatus, all []contivmodel.NodeStatus, view switchView, report Report) {
	detail := fmt.Sprintf("to %d nodes", registered(all)-1)
	silent, err := t.silent(n, all), view.missing(n, all)
	if err == nil && len(silent) > 0 {
		report.check("tunnels "+n.Host, "have both nodes their --vtep-ip still, on links that are up, and does UDP 4789 (--vxlan-port) pass between them, both ways?",
			"", fmt.Errorf("no answer by the tunnel from %s", strings.Join(silent, ", ")))
		return
	}
	report.check("tunnels "+n.Host, "is netplugin of the missing nodes registered, with its --vtep-ip?", detail, err)
}

// silent names the nodes that should answer a node and do not.
func (t tunnels) silent(n contivmodel.NodeStatus, all []contivmodel.NodeStatus) (silent []string) {
	for _, other := range all {
		answers, asked := t[n.Host][other.Host]
		if _, speaks := t[other.Host]; asked && !answers && speaks && other.Registered && other.Host != n.Host {
			silent = append(silent, fmt.Sprintf("%s (%s)", other.Host, other.VTEP))
		}
	}
	return silent
}
