package gate

import (
	"fmt"
	"net"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/ratelimit"
)

func denied(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, format, args...)
}

func unauthenticated(format string, args ...any) error {
	return status.Errorf(codes.Unauthenticated, format, args...)
}

func unavailable(format string, args ...any) error {
	return status.Errorf(codes.Unavailable, format, args...)
}

func exhausted(format string, args ...any) error {
	return status.Errorf(codes.ResourceExhausted, format, args...)
}

// refuse returns the error for a request that a node may not make, and audits it.
func (g *Gate) refuse(c *caller, call, key, format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	g.writeDown(c, call, key, reason)
	return denied("%s %.200s: %s", call, key, reason)
}

// writeDown writes a refusal to the audit log and the daemon's log, unless there have been too many.
func (g *Gate) writeDown(c *caller, call, key, reason string) {
	now := time.Now()
	who := identity.Identity{Kind: identity.Node, Name: c.host}.String()
	if untold, worth := c.budget.shouldAudit(now); worth {
		g.cfg.Audit.Add(audit.Entry{
			Time: now.UTC(), Principal: who, How: "certificate", Source: c.from.String(), Verb: call, Key: key,
			Decision: audit.Denied, Reason: reason, Status: 403, Untold: untold,
		})
	}
	if c.budget.shouldLog(now) {
		g.log.WithField("node", c.host).Warnf("%s %.200s refused: %s", call, key, reason)
	}
}

// noteRejected audits a rejected connection: the first hundred of each machine, then some at intervals.
func (g *Gate) noteRejected(from net.Addr, why error) {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		host = from.String()
	}
	now := time.Now()
	if untold, worth := g.strangers.Tell(accounts.Source(host), ratelimit.Refusal, now); worth {
		g.cfg.Audit.Add(audit.Entry{
			Time: now.UTC(), Principal: identity.Identity{}.String(), How: "certificate", Source: from.String(), Verb: "connect",
			Decision: audit.Denied, Reason: why.Error(), Status: 401, Untold: untold,
		})
		g.log.WithError(why).WithFields(logrus.Fields{"from": from.String(), "untold": untold}).Info("connection to the gate refused")
	}
}
