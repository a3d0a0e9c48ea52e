package netctl

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
)

// migration is the help of the family.
const migration = `How a running cluster is closed, without a packet lost:

  1. start the netmasters of this version, then the agents
  2. on the leader's machine:  netctl --netmaster ` + rootSocket + ` security init
  3. the other netmasters join:  netctl ... token create --role master -q, and netmaster --join-token-file FILE
  4. the nodes join, one after the other:  netctl ... token create --role node -q, and netplugin --join-token-file FILE --netmasters URLS
  5. where netmasters embed the store, they are started with https in its URLs, one after the other
  6. users and tokens for people and programs:  netctl ... security report names those that would be refused
  7. netctl ... security enforce; netctl ... security relax goes back`

var securityFamily = family{name: "security", usage: "How far the cluster is closed: open, permissive or enforced", more: migration, tools: []tool{
	{name: "status", usage: "Show the mode, the pin of the authorities, and which daemons show certificates", run: securityStatus, flags: listingFlags,
		more: "In an open cluster nobody is asked who he is. A permissive one asks, and refuses nobody for what an enforced one would " +
			"refuse; who may do what is guarded already. In an enforced one every request needs an identity and the right, over TLS. `netctl security --help` has the whole way."},
	{name: "init", usage: "Give an open cluster authorities for certificates, and make it permissive", flags: stepFlags,
		run: func(s *session) error { return s.securityStep("init") },
		more: "It is taken on the machine of the leader, by root at " + rootSocket + ". Nothing is refused that was not before, but what " +
			"is about users, tokens and who has joined: that needs an admin from then on, such as root at the socket. `netctl security --help` has the whole way."},
	{name: "report", usage: "List what an enforced cluster would have refused in the last 24 hours", run: securityReport, flags: listingFlags,
		more: "The netmasters count while they lead and the cluster is permissive, each from its start on, and are asked all. The audit logs of the netmasters have every request. `netctl security --help` has the whole way."},
	{name: "enforce", usage: "Close a permissive cluster: who shows no identity over TLS is refused", flags: stepFlags,
		run:  enforceSecurity,
		more: "Refused while a netmaster or a node that is registered shows no certificate, or others reach the store plainly. What the report lists is refused from then on. `netctl security --help` has the whole way."},
	{name: "relax", usage: "Make an enforced cluster permissive again", flags: stepFlags,
		run:  func(s *session) error { return s.securityStep("relax") },
		more: "Never open: authorities, users and who has joined stay, and stay guarded. `netctl security --help` has the whole way."},
	rotateTool, rotateKeysTool,
}}

func stepFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Usage: "say what would happen, change nothing"},
		outputFlag(documentFormats),
	}
}

// securityStep changes the mode, or prints the effect of a change.
func (s *session) securityStep(step string) error {
	dryRun := s.cmd.Bool("dry-run")
	status, err := s.client.ChangeSecurity(s.ctx, step, dryRun)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(status)
	}
	would := "is"
	if dryRun {
		would = "would be"
	}
	line := fmt.Sprintf("The cluster %s %s; it was %s", would, status.Mode, status.Was)
	if status.Mode == status.Was {
		line = fmt.Sprintf("The cluster is %s already", status.Mode)
	}
	if status.Pin != "" {
		line += ". Pin of its authorities: " + status.Pin
	}
	return s.done(line, nil)
}

// enforceSecurity warns of the counted requests that an enforced cluster refuses, and changes the mode.
func enforceSecurity(s *session) error {
	report, err := s.client.SecurityReport(s.ctx)
	if err != nil {
		return err
	}
	if n := requests(report); n > 0 && s.format() == formatTable {
		fmt.Fprintf(s.errOut, "%d requests since %s are of a kind that is refused then: netctl security report\n", n, moment(report.Since))
	}
	return s.securityStep("enforce")
}

// requests returns the number of requests in a report.
func requests(r contivmodel.SecurityReport) int64 {
	n := r.More
	for _, row := range r.Rows {
		n += row.Count
	}
	return n
}

func securityStatus(s *session) error {
	status, err := s.client.Security(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(status)
	}
	p := &page{session: s}
	for _, line := range [][2]string{{"Mode", status.Mode}, {"Cluster", cmp.Or(status.ClusterID, "none: it has no authorities")}, {"Pin", status.Pin}, {"Values", status.Values}} {
		if line[1] != "" {
			p.printf("%-9s %s\n", line[0]+":", printable(line[1]))
		}
	}
	var rows [][]string
	for _, d := range status.Daemons {
		shows := "certificate"
		if !d.Secured {
			shows = "nothing: would be refused in an enforced cluster"
		}
		rows = append(rows, printables(d.Role, d.Name, d.Address, shows))
	}
	p.table("Daemons", []string{"Role", "Name", "Address", "Shows"}, rows)
	return p.err
}

func securityReport(s *session) error {
	report, err := s.client.SecurityReport(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(report)
	}
	var rows [][]string
	for _, r := range report.Rows {
		rows = append(rows, printables(fmt.Sprint(r.Count), r.Principal, r.Source, r.Request, moment(r.Last), r.Reason))
	}
	if report.More > 0 {
		rows = append(rows, []string{fmt.Sprint(report.More), "others"})
	}
	fmt.Fprintf(s.errOut, "Counted since %s, by a leader of a cluster that is %s.\n", moment(report.Since), printable(report.Mode))
	if len(report.Silent) > 0 {
		fmt.Fprintf(s.errOut, "Not counted: what netmasters saw that do not answer, at %s; their audit logs have it.\n", printable(strings.Join(report.Silent, ", ")))
	}
	return s.printTable([]string{"Requests", "Who", "From", "Request", "Last", "Why"}, rows)
}
