package netctl

import (
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/netctl/checkup"
	"github.com/contiv/netplugin/utils/ports"
)

var checkTool = tool{
	name: "check", usage: "Find out whether the cluster, or this machine, is in order", run: doCheck, local: true,
	flags: func() []cli.Flag {
		return []cli.Flag{
			outputFlag(documentFormats),
			&cli.BoolFlag{Name: "preflight", Usage: "check this machine before the daemons are installed, ask no server"},
			&cli.BoolFlag{Name: "probe", Usage: "also attach two namespaces of this node through the CNI plugin and ping from one to the other"},
			&cli.StringFlag{Name: "tenant", Aliases: []string{"t"}, Usage: "tenant for --probe; default as the network configuration says"},
			&cli.StringFlag{Name: "network", Usage: "network for --probe; default as the network configuration says"},
			&cli.StringFlag{Name: "group", Usage: "endpoint group for --probe"},
			&cli.StringFlag{Name: "cni-conf", Value: "/etc/cni/net.d", TakesFile: true, Usage: "folder of network configurations, for --probe"},
			&cli.StringFlag{Name: "cni-bin", Value: "/opt/cni/bin", TakesFile: true, Usage: "folder of CNI plugins, for --probe"},
			&cli.IntFlag{Name: "agent-port", Value: ports.Agent, Usage: "port of the agents' REST servers"},
		}
	},
	more: fmt.Sprintf("Each check is one line, `ok` or `FAIL`, a failure followed by a hint; with `-o json` or `-o yaml` all are a list of `{name, ok, detail, hint}` at the end. The exit code is %d if one failed. "+
		"Without flags: netmaster, store, the votes of its members, leader, and of every node that it is registered, that its agent is ready, that its "+
		"switch is in sync, that it has a tunnel to every other node and gets an answer by it, that nothing waits that it should serve, that its uplinks work, and that names are answered; "+
		"how many services there are, and which have nobody behind them; "+
		"of Kubernetes, that it is followed, that every node has an agent and none has rules of kube-proxy, and that pods, services and policies get what they ask for.", exitPartial),
}

func doCheck(s *session) error {
	p := &checklist{session: s}
	switch {
	case s.cmd.Bool("preflight") && s.cmd.Bool("probe"):
		return usageError{message: "either --preflight or --probe: before the daemons are installed there is nothing to probe"}
	case s.cmd.Bool("preflight"):
		checkup.Host(s.ctx, p.report)
		return p.outcome()
	}
	err := s.connected(func() error {
		checkup.Cluster(s.ctx, s.client, s.cmd.Int("agent-port"), p.report)
		return nil
	})
	if err == nil && s.cmd.Bool("probe") {
		checkup.Probe{
			ConfDir: s.cmd.String("cni-conf"), BinDir: s.cmd.String("cni-bin"),
			Tenant: s.tenant(), Network: s.cmd.String("network"), Group: s.cmd.String("group"),
		}.Run(s.ctx, p.report)
	}
	if err != nil {
		return err
	}
	return p.outcome()
}

// checklist prints results as they arrive, or all of them as one document.
type checklist struct {
	*session
	failed int
	all    []checked
	err    error
}

// checked is a result in JSON.
type checked struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // how to repair it
}

func (c *checklist) report(r checkup.Result) {
	state, hint := "ok", ""
	if !r.OK() {
		state, hint = "FAIL", "; "+r.Hint
		c.failed++
	}
	if c.format() != formatTable {
		c.all = append(c.all, checked{r.Name, r.OK(), r.Detail, r.Hint})
		return
	}
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.out, "%-4s  %s: %s%s\n", state, printable(r.Name), printable(r.Detail), printable(hint))
	}
	if c.err == nil {
		c.err = c.flush()
	}
}

func (c *checklist) outcome() error {
	if c.format() != formatTable {
		c.err = c.printDocument(c.all)
	}
	if c.err == nil && c.failed > 0 {
		return outcomeCode(exitPartial)
	}
	return c.err
}
