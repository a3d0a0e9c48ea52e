package netctl

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

var verdictTool = tool{
	name: "verdict", usage: "Tell whether an endpoint may begin a connection to another, and what decides", args: "FROM TO", run: doVerdict,
	flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.IntFlag{Name: "port", Aliases: []string{"p"}, Value: 80, Usage: "port of the connection"},
			&cli.StringFlag{Name: "protocol", Value: "tcp", Usage: "tcp, udp or sctp"},
			outputFlag(documentFormats), &cli.BoolFlag{Name: "no-headers", Usage: "leave out the headings of tables"},
		}
	},
	more: "FROM and TO are endpoints by id, the id or name of their container, or NAMESPACE/POD. Rules between groups judge packets; policies " +
		"of Kubernetes judge what the sender may begin (egress) and what the receiver accepts (ingress). It is told what is written of them, " +
		"which agents make flows of; the flows are not looked at.",
}

func doVerdict(s *session) error {
	args := s.cmd.Args()
	verdicts, err := s.client.Verdicts(s.ctx, inspected(args.Get(0)), inspected(args.Get(1)), strings.ToLower(s.cmd.String("protocol")), s.cmd.Int("port"))
	if err != nil {
		return notAttached(err, args.Get(0), args.Get(1))
	}
	if s.format() != formatTable {
		return s.printDocument(verdicts)
	}
	var rows [][]string
	for _, v := range verdicts.Verdicts {
		for i, j := range v.Judged {
			row := []string{"", "", "", j.Of, verdictWord(j.Allowed), j.Tier, j.Rule}
			if i == 0 {
				copy(row, []string{v.From, v.To, verdictWord(v.Allowed)})
			}
			for i := range row {
				row[i] = printable(row[i])
			}
			rows = append(rows, row)
		}
	}
	p := &page{session: s}
	p.table(fmt.Sprintf("%s port %d", verdicts.Protocol, verdicts.Port), []string{"From", "To", "Verdict", "Judged", "Says", "Tier", "Rule"}, rows)
	return p.err
}

func verdictWord(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
