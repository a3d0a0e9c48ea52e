package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// reportPath serves a netmaster's own counts, from its time as leader, of requests that an enforced cluster
// would have refused. The leader reads those of all others.
const reportPath = mastercfg.SecurityPath + "/report/own"

const (
	reportTime = 3 * time.Second // for another netmaster to answer
	maxReport  = 4 << 20         // bytes of its answer
)

// ownReport serves these counts to netmasters, and to root of this machine.
func (d *Daemon) ownReport(w http.ResponseWriter, r *http.Request) {
	if kind := identity.From(r.Context()).Kind; kind != identity.Master && kind != identity.Root {
		rest.WriteStatus(w, r, http.StatusForbidden, fault.New(fault.Denied, "%s is for netmasters", r.URL.Path))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d.cfg.API.Foreseen.Report(time.Now().UTC())) // an error means that the client is gone
}

// otherReports gets the counts of the other registered netmasters. silent are the addresses of those that do not
// answer.
func (d *Daemon) otherReports(ctx context.Context) (others []contivmodel.SecurityReport, silent []string, err error) {
	registered, err := d.db.Services(ctx, mastercfg.MasterService)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, s := range registered {
		at := net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port))
		if at == d.cfg.Control {
			continue
		}
		asking.Go(func() {
			said, err := d.reportOf(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				d.log.WithError(err).WithField("netmaster", at).Warn("it does not tell what an enforced cluster would have refused while it led")
				silent = append(silent, at)
				return
			}
			others = append(others, said)
		})
	}
	asking.Wait()
	slices.Sort(silent)
	return others, slices.Compact(silent), nil
}

func (d *Daemon) reportOf(ctx context.Context, at string) (said contivmodel.SecurityReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at+reportPath, nil)
	if err != nil {
		return said, err
	}
	resp, err := d.front.proxy.transport.RoundTrip(req)
	if err != nil {
		return said, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return said, err
	}
	if resp.StatusCode != http.StatusOK {
		return said, fmt.Errorf("%s", resp.Status)
	}
	return said, json.Unmarshal(text, &said)
}
