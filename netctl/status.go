package netctl

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netctl/checkup"
)

var statusTool = tool{
	name: "status", usage: "Show leader, netmasters, nodes, versions and the state of the store", run: doStatus,
	flags: func() []cli.Flag {
		return []cli.Flag{outputFlag(documentFormats), &cli.BoolFlag{Name: "no-headers", Usage: "leave out the headings of tables"}}
	},
}

func doStatus(s *session) error {
	status, err := s.client.Status(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(status)
	}
	p := &page{session: s}
	p.summary(status)
	if status.Partial {
		return p.err
	}
	var masters, nodes [][]string
	for _, m := range status.Masters {
		masters = append(masters, []string{printable(m.Address), printable(m.Role), printable(m.Version)})
	}
	for _, n := range status.Nodes {
		state := "registered"
		if !n.Registered {
			state = "gone"
		}
		nodes = append(nodes, []string{printable(n.Host), printable(n.Address), printable(n.VTEP), fmt.Sprint(n.Endpoints), state, printable(n.Version)})
	}
	p.table("Netmasters", []string{"Address", "Role", "Version"}, masters)
	p.table("Nodes", []string{"Host", "Address", "VTEP", "Endpoints", "Agent", "Version"}, nodes)
	return p.err
}

// told returns a security mode, with a warning if it needs one.
func told(mode string) string {
	if mode == "open" {
		return "open: whoever reaches a netmaster may do everything (netctl security --help)"
	}
	return mode
}

// healthOf returns the health of a store, with the problem of one that answers.
func healthOf(store contivmodel.StoreStatus) string {
	if !store.Healthy {
		return "UNHEALTHY"
	}
	wrong := ""
	if len(store.Learners) > 0 {
		wrong += ", no vote yet for " + strings.Join(store.Learners, ", ")
	}
	if len(store.Missing) > 0 {
		wrong += ", no answer from " + strings.Join(store.Missing, ", ")
	}
	if store.Full != "" {
		wrong += ", FULL: nothing can be added"
	}
	if wrong == "" {
		return "healthy"
	}
	return "healthy" + wrong + ","
}

func (p *page) summary(status contivmodel.Status) {
	health := healthOf(status.Store)
	lines := [][2]string{
		{"Leader", cmp.Or(status.Leader, "none")},
		{"Epoch", fmt.Sprint(status.Epoch)},
		{"Revision", fmt.Sprint(status.Revision)},
		{"Version", fmt.Sprintf("%s (%s)", status.Version.Version, status.Version.GitCommit)},
		{"Store", health},
	}
	if len(status.Store.Endpoints) > 0 {
		lines[len(lines)-1][1] += " at " + strings.Join(status.Store.Endpoints, ", ")
	}
	if status.Security != "" {
		lines = append(lines, [2]string{"Security", told(status.Security)})
	}
	if status.Partial {
		lines = append(lines, [2]string{"Parts", checkup.NotShown})
	}
	for _, line := range lines {
		p.printf("%-10s %s\n", line[0]+":", printable(line[1]))
	}
}
