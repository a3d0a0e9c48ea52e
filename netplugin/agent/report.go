package agent

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// operational is what this node reports.
type operational struct {
	endpoints map[string]mastercfg.OperEndpointState
	summary   mastercfg.OvsDriverOperState
}

// reporting is one task of the reporter: the signal that starts it, and when the rest is due.
type reporting struct {
	wake notify.Signal
	due  *time.Timer
	once func(context.Context, *reporter) (next time.Duration, err error) // next is the time until the rest is due; 0: all is written

	trouble logging.Trouble
}

// failed logs that records could not be written. An unreachable store is logged where that is noticed.
func (what *reporting) failed(log *logrus.Entry, err error) {
	level := logrus.DebugLevel
	if !fault.Is(err, fault.Unavailable) && what.trouble.IsNews(err, time.Now()) {
		level = logrus.WarnLevel
	}
	log.WithError(err).Log(level, "operational records not written, trying again")
}

// reportLoop writes the records of endpoints with a port, off the attach path, and the enforced epoch of policies. The
// epoch changes with each policy of the cluster; its cost does not depend on the node's endpoints.
func (a *Agent) reportLoop(ctx context.Context) error {
	r := reporter{store: a.cfg.DB, host: a.cfg.HostLabel}
	wait := retry.NewPacer(100*time.Millisecond, 30*time.Second)
	if err := a.inSync.await(ctx); err != nil {
		return err
	}
	endpoints := &reporting{wake: a.report, due: time.NewTimer(0), once: a.reportOnce}
	epoch := &reporting{wake: a.tell, due: time.NewTimer(0), once: a.tellEpoch}
	defer endpoints.due.Stop()
	defer epoch.due.Stop()
	for {
		what := endpoints
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-endpoints.wake:
		case <-endpoints.due.C:
		case <-epoch.wake:
			what = epoch
		case <-epoch.due.C:
			what = epoch
		}
		next, err := what.once(ctx, &r)
		if err == nil {
			wait.Reset()
			what.trouble.Over()
			if next > 0 {
				what.due.Reset(next)
			}
			continue
		}
		what.failed(a.log, err)
		what.wake.Send()
		wait.Sleep(ctx)
	}
}

// reportOnce writes the endpoint records that have changed.
func (a *Agent) reportOnce(ctx context.Context, r *reporter) (next time.Duration, err error) {
	if !a.cfg.Driver.Status().Connected {
		return 0, fault.New(fault.Unavailable, "switch is away, its ports are not known")
	}
	a.mu.Lock()
	if a.held.rewound {
		a.held.rewound = false
		r.forget()
		a.tell.Send()
	}
	a.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return 0, err
	}
	ports := a.cfg.Driver.Ports()
	a.mu.Lock()
	want := a.cache.operational(ports, a.cfg.VTEP)
	for id := range a.held.attached {
		if _, absent := a.held.absent[mastercfg.EndpointPrefix+id]; absent {
			want.remove(id)
		}
	}
	for _, id := range a.held.unreported {
		r.doubt[id] = struct{}{}
	}
	a.held.unreported = nil
	a.mu.Unlock()
	now := time.Now()
	if err := r.reconcile(ctx, want, now); err != nil {
		return 0, err
	}
	return r.reportSummary(ctx, want.summary, now)
}

// tellEpoch writes the epoch of policies that the switch has, and the ports of the node that have conflicts.
func (a *Agent) tellEpoch(ctx context.Context, r *reporter) (next time.Duration, err error) {
	if err := r.load(ctx); err != nil {
		return 0, err
	}
	enforced := a.enforced.Load()
	if enforced == nil {
		return 0, nil // the signal is sent again once it is known
	}
	told := *enforced
	told.Troubles = a.reportedTroubles()
	return r.reportEnforced(ctx, told, time.Now())
}

// operational returns the reports of the local endpoints that have a port.
func (c *cache) operational(ports []drivers.Port, vtep netip.Addr) operational {
	o := operational{
		endpoints: make(map[string]mastercfg.OperEndpointState),
		summary:   mastercfg.OvsDriverOperState{ID: c.host, LocalEpInfo: make(map[string]mastercfg.LocalEpInfo)},
	}
	for _, port := range ports {
		e, known := c.endpoints[port.EndpointID]
		if !known || e.host != c.host {
			continue
		}
		name := strings.TrimPrefix(port.HostLink, "v") // vvportN's other end is vportN
		o.endpoints[port.EndpointID] = mastercfg.OperEndpointState{
			ID: port.EndpointID, NetID: e.record.NetID, EndpointID: e.record.EndpointID,
			ServiceName: e.record.ServiceName, IPAddress: e.record.IPAddress, IPv6Address: e.record.IPv6Address,
			MacAddress: e.record.MacAddress, HomingHost: e.host, IntfName: e.record.IntfName,
			PortName: name, VtepIP: addrText(vtep),
		}
		o.summary.LocalEpInfo[port.EndpointID] = mastercfg.LocalEpInfo{
			OvsPortName: port.HostLink, EpgKey: e.record.EndpointGroupKey, BridgeType: c.networks[e.record.NetID].part.Encap.String(),
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "vport")); err == nil {
			o.summary.CurrPortNum = max(o.summary.CurrPortNum, n)
		}
	}
	return o
}

func addrText(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

// remove removes an endpoint from the report.
func (o *operational) remove(id string) {
	delete(o.endpoints, id)
	delete(o.summary.LocalEpInfo, id)
}
