package netctl

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel/client"
)

// family is a command that groups tools.
type family struct {
	name, usage string
	more        string // text in help and reference beside the usage
	tools       []tool
}

// families returns all families.
func families() []family {
	return []family{apiTokenFamily, ldapFamily, nodeFamily, openIDFamily, roleFamily, securityFamily, tokenFamily, userFamily}
}

func (f family) command() *cli.Command {
	cmd := &cli.Command{Name: f.name, Usage: f.usage, Description: f.more, Action: unknownCommand, OnUsageError: onUsageError}
	for _, t := range f.tools {
		sub := t.command()
		sub.Aliases = verbAliases[t.name]
		teach(sub, f.name+" "+t.name, t.more)
		cmd.Commands = append(cmd.Commands, sub)
	}
	return cmd
}

// joinRoles are the roles that can join with a token.
var joinRoles = []string{"node", "master"}

var tokenFamily = family{name: "token", usage: "Tokens with which nodes and netmasters join the cluster", tools: []tool{
	{name: "create", usage: "Create a join token and print it, this once", run: createToken,
		flags: func() []cli.Flag {
			return []cli.Flag{
				roleFlag("what joins with it", joinRoles),
				&cli.DurationFlag{Name: "ttl", Value: 24 * time.Hour, Usage: "how long it can be used"},
				&cli.IntFlag{Name: "uses", Usage: "how many may join with it; 0: any number"},
				&cli.StringFlag{Name: "host", Value: "*", Usage: "names that may join, with * and ? for what differs", OnlyOnce: true},
				&cli.StringFlag{Name: "tenants", Usage: "tenants that the nodes may serve, with commas between (default: all)", OnlyOnce: true},
				&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print the token only"},
			}
		},
		more: "The token is a secret: put it into a file that only root reads, and name the file to netplugin, or to netmaster, with --join-token-file. " +
			"A netmaster that joins is given the keys of the authorities: a token for one is worth the whole cluster. " +
			"It is shown over https, and on the machine of a netmaster, only, to an admin who has logged in or to root: root asks at " + rootSocket + ". It holds the pin of the cluster's authority, so that who joins knows the cluster. " +
			"Programs that use the REST interface have tokens of another kind: see `netctl api-token`.",
	},
	{name: "ls", usage: "List the join tokens, without their secrets", run: listTokens, flags: listingFlags},
	{name: "rm", usage: "Remove a join token; who has joined with it stays", args: "ID", run: func(s *session) error {
		return s.done("Removed join token "+s.cmd.Args().First(), s.client.RemoveJoinToken(s.ctx, s.cmd.Args().First()))
	}},
}}

var nodeFamily = family{name: "node", usage: "Nodes and netmasters that have joined the cluster", tools: []tool{
	{name: "ls", usage: "List who has joined, and until when its certificate is good", run: listNodes,
		flags: func() []cli.Flag { return append(listingFlags(), mastersFlag()) }},
	{name: "rm", usage: "Remove a node: it cannot renew its certificate, and is not known by it any more", args: "HOST", run: func(s *session) error {
		host := s.cmd.Args().First()
		return s.done("Removed "+host, s.client.RemoveNode(s.ctx, host, s.cmd.Bool("masters")))
	}, flags: func() []cli.Flag { return []cli.Flag{mastersFlag()} },
		more: "The key of the node never counts again: if it joins once more, it is with another one. One that runs, and has " +
			"a token that is still good, does so within a minute: stop its netplugin, or remove the token, first. Its endpoints " +
			"are freed within two minutes; if it joins again, its agent announces them anew. A netmaster counts no " +
			"more at the others until one joins again under its name, and the authorities are replaced without it; its " +
			"member of the store, and the keys of the authorities that it has, stay good: stop it, remove the member, " +
			"and replace the authorities (`netctl security rotate-ca`)."},
	{name: "rekey", usage: "Let a node that has lost its key join once more", args: "HOST", run: func(s *session) error {
		host := s.cmd.Args().First()
		return s.done(host+" may join once more", s.client.RekeyNode(s.ctx, host, s.cmd.Bool("masters")))
	}, flags: func() []cli.Flag { return []cli.Flag{mastersFlag()} },
		more: "The name of a node belongs to the key that it joined with, so that nobody with a token becomes a node " +
			"that exists. After this, the next one with a token gets the name, and the former key never counts again: " +
			"a node that still has it, and a good token, joins with another one: stop it first if another machine is to have " +
			"the name. Its endpoints stay: where its machine was set up anew, " +
			"`netctl node rm` frees them. A netmaster that runs goes on as before: `netctl node rm --masters` removes " +
			"it."},
}}

func mastersFlag() cli.Flag {
	return &cli.BoolFlag{Name: "masters", Usage: "a netmaster, not a node"}
}

func listingFlags() []cli.Flag {
	return []cli.Flag{outputFlag(documentFormats), &cli.BoolFlag{Name: "no-headers", Usage: "leave out the headings of tables"}}
}

// done prints line unless err is set.
func (s *session) done(line string, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, line)
	return err
}

func createToken(s *session) error {
	if s.cmd.String("role") == "" {
		return usageError{"--role required: node or master", s.cmd}
	}
	wanted := client.NewJoinToken{Role: s.cmd.String("role"), TTL: s.cmd.Duration("ttl").String(), Host: s.cmd.String("host"), Uses: s.cmd.Int("uses"),
		Tenants: listed(s.cmd.String("tenants"))}
	text, record, err := s.client.CreateJoinToken(s.ctx, wanted)
	if err != nil {
		return err
	}
	if !s.cmd.Bool("quiet") {
		fmt.Fprintf(s.errOut, "Join token %s for role %s, until %s. It is not shown again.\n", record.ID, record.Role, moment(record.Expires))
	}
	_, err = fmt.Fprintln(s.out, text)
	return err
}

func listTokens(s *session) error {
	all, err := s.client.JoinTokens(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(all)
	}
	var rows [][]string
	for _, t := range all {
		used := fmt.Sprint(t.Used)
		if t.Uses > 0 {
			used = fmt.Sprintf("%d of %d", t.Used, t.Uses)
		}
		rows = append(rows, printables(t.ID, t.Role, t.Host, cmp.Or(strings.Join(t.Tenants, ","), "all"), used, moment(t.Expires), t.Creator))
	}
	return s.printTable([]string{"ID", "Role", "Hosts", "Tenants", "Used", "Expires", "Creator"}, rows)
}

func listNodes(s *session) error {
	all, err := s.client.Nodes(s.ctx, s.cmd.Bool("masters"))
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(all)
	}
	var rows [][]string
	for _, n := range all {
		key := "none: may join once more"
		if len(n.Key) >= shownKey {
			key = n.Key[:shownKey]
		}
		if n.MustJoin {
			key += " (must join anew)"
		}
		rows = append(rows, printables(n.Host, strings.Join(n.Addresses, ","), cmp.Or(strings.Join(n.Tenants, ","), "all"), moment(n.Joined), moment(n.Expires), key))
	}
	return s.printTable([]string{"Host", "Addresses", "Tenants", "Joined", "Certificate until", "Key"}, rows)
}

// shownKey is the number of printed digits of the hash of a key.
const shownKey = 16

// moment formats a time for users, to the minute.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

func printables(texts ...string) []string {
	for i := range texts {
		texts[i] = printable(texts[i])
	}
	return texts
}
