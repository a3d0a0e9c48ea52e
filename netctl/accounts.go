package netctl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/fault"
)

var whoAmITool = tool{
	name: "whoami", usage: "Show who the netmaster takes you for, and what you may", run: whoAmI,
	flags: func() []cli.Flag { return []cli.Flag{outputFlag(documentFormats)} },
	more:  "A cluster that is open asks nobody who he is, and has neither users nor roles.",
}

var userFamily = family{name: "user", usage: "Local users, who log in with a password", tools: []tool{
	{name: "create", usage: "Create a user, who may nothing yet", args: "<user>", run: createUser,
		flags: func() []cli.Flag {
			return append(nameFlags(), passwordStdinFlag(), &cli.BoolFlag{Name: "disable", Usage: "the user cannot log in until it is enabled"})
		},
		more: "The password has 12 bytes or more and is asked for, twice, or read from standard input. It is sent over https and on the machine of a netmaster only. " +
			"Give the user a role with `netctl role grant`. The first admin is made by root of a netmaster's machine, at " + rootSocket + "."},
	{name: "ls", usage: "List the users", run: listUsers, flags: listingFlags},
	{name: "update", usage: "Change names of a user, or whether it may log in", args: "<user>", run: updateUser,
		flags: func() []cli.Flag {
			return append(nameFlags(), &cli.BoolFlag{Name: "disable", Usage: "the user cannot log in, and its sessions and certificates end"},
				&cli.BoolFlag{Name: "enable", Usage: "the user can log in again"})
		}},
	{name: "password", usage: "Give a user a new password; its sessions and certificates end", args: "<user>", run: changePassword,
		flags: func() []cli.Flag { return []cli.Flag{passwordStdinFlag()} },
		more:  "Users may do that for themselves. The password is asked for, twice, or read from standard input."},
	userCertTool,
	{name: "logout", usage: "End the sessions of a user, also of one of a directory", args: "<user>", run: endSessions,
		more: "A user of a directory is named as `netctl whoami` shows him. Who can log in still may do so again: remove him there, or disable the local user."},
	{name: "rm", usage: "Remove a user with its roles; its sessions and certificates end", args: "<user>", run: func(s *session) error {
		return s.done("Removed user "+s.cmd.Args().First(), s.client.RemoveUser(s.ctx, s.cmd.Args().First()))
	}},
}}

var roleFamily = family{name: "role", usage: "Who may what: roles of users, and of groups of a directory", tools: []tool{
	{name: "grant", usage: "Give a role to a user or a group", args: "<principal> <role>", run: grantRole, flags: bindingFlags,
		more: "Roles add up. viewer reads what is in its tenants, tenant-admin changes it, operator runs the cluster, admin may everything, also say who may what; " +
			"metrics reads metrics. viewer and tenant-admin are of one tenant, or without --tenant of all; the others are of the cluster. Who administers a tenant may give both roles in it."},
	{name: "revoke", usage: "Take a role from a user or a group", args: "<principal> <role>", run: revokeRole, flags: bindingFlags,
		more: "It counts from the next request on, and ends watches that the role allowed."},
	{name: "ls", usage: "List the roles that you may take away", run: listRoles, flags: listingFlags},
}}

var apiTokenFamily = family{name: "api-token", usage: "Tokens with which programs use the REST interface", tools: []tool{
	{name: "create", usage: "Create an API token and print it, this once", args: "<name>", run: createAPIToken,
		flags: func() []cli.Flag {
			return []cli.Flag{
				roleFlag("what its bearer may", client.Roles()),
				&cli.StringFlag{Name: "tenants", Usage: "tenants in which it has the role, with commas between (default: all)", OnlyOnce: true},
				&cli.DurationFlag{Name: "ttl", Value: 90 * 24 * time.Hour, Usage: "how long it can be used, at most a year"},
				&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print the token only"},
			}
		},
		more: "Whoever has the token is the program: keep it in a file of its own, and give it to netctl with NETCTL_TOKEN, to others in the header X-Auth-Token. " +
			"It is taken over https only. Nodes and netmasters join the cluster with tokens of another kind: see `netctl token`."},
	{name: "ls", usage: "List the API tokens, without their texts", run: listAPITokens, flags: listingFlags},
	{name: "rm", usage: "Remove an API token; it is refused from now on", args: "<name>", run: func(s *session) error {
		return s.done("Removed API token "+s.cmd.Args().First(), s.client.RemoveAPIToken(s.ctx, s.cmd.Args().First()))
	}},
}}

func nameFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "first-name", Usage: "first name", OnlyOnce: true}, &cli.StringFlag{Name: "last-name", Usage: "last name", OnlyOnce: true}}
}

func passwordStdinFlag() cli.Flag {
	return &cli.BoolFlag{Name: "password-stdin", Usage: "read the password from standard input instead of asking"}
}

// roleFlag returns --role for a choice of roles.
func roleFlag(usage string, roles []string) cli.Flag {
	choice := "one of " + strings.Join(roles, ", ")
	return &cli.StringFlag{Name: "role", Usage: usage + ": " + choice, OnlyOnce: true, Validator: func(role string) error {
		if !slices.Contains(roles, role) {
			return errors.New("must be " + choice)
		}
		return nil
	}}
}

func bindingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "tenant", Aliases: []string{"t"}, OnlyOnce: true, Usage: "tenant that the role is about (default: all)"},
		&cli.BoolFlag{Name: "group", Usage: "the principal is a group of a directory, such as LDAP, not a local user"},
	}
}

func whoAmI(s *session) error {
	who, err := s.client.WhoAmI(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(who)
	}
	var roles []string
	for _, g := range who.Roles {
		roles = append(roles, inTenant(g.Role, g.Tenant))
	}
	until := "does not end"
	if who.Expires != nil {
		until = moment(*who.Expires)
	}
	for _, line := range [][2]string{{"Identity", who.Identity}, {"Roles", cmp.Or(strings.Join(roles, ", "), "none")}, {"Until", until}, {"Mode", who.Mode}} {
		if _, err := fmt.Fprintf(s.out, "%-10s%s\n", line[0]+":", printable(line[1])); err != nil {
			return err
		}
	}
	return nil
}

// inTenant returns a role with its tenant, if it has one.
func inTenant(role, tenant string) string {
	if tenant == everywhere {
		return role
	}
	return role + " of " + tenant
}

// everywhere is the tenant of roles in all tenants.
const everywhere = "*"

// changed returns the user that the flags describe.
func (s *session) changed() client.User {
	user := client.User{Username: s.cmd.Args().First()}
	for flag, field := range map[string]**string{"first-name": &user.FirstName, "last-name": &user.LastName} {
		if s.cmd.IsSet(flag) {
			text := s.cmd.String(flag)
			*field = &text
		}
	}
	if s.cmd.Bool("disable") || s.cmd.Bool("enable") {
		disabled := s.cmd.Bool("disable")
		user.Disable = &disabled
	}
	return user
}

func createUser(s *session) error {
	user := s.changed()
	password, err := s.newPassword()
	if err != nil {
		return err
	}
	user.Password = &password
	return s.done("Created user "+user.Username, s.client.CreateUser(s.ctx, user))
}

func updateUser(s *session) error {
	user := s.changed()
	switch {
	case s.cmd.Bool("disable") && s.cmd.Bool("enable"):
		return usageError{"--disable and --enable cannot be given together", s.cmd}
	case user == client.User{Username: user.Username}:
		return usageError{"nothing to change: --first-name, --last-name, --disable or --enable required", s.cmd}
	}
	return s.done("Changed user "+user.Username, s.client.ChangeUser(s.ctx, user))
}

func changePassword(s *session) error {
	password, err := s.newPassword()
	if err != nil {
		return err
	}
	name := s.cmd.Args().First()
	return s.done("Changed the password of user "+name, s.client.ChangeUser(s.ctx, client.User{Username: name, Password: &password}))
}

func endSessions(s *session) error {
	name := s.cmd.Args().First()
	ended, err := s.client.EndSessions(s.ctx, name)
	return s.done(fmt.Sprintf("Ended %d sessions of user %s", ended, name), err)
}

func listUsers(s *session) error {
	all, err := s.client.Users(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(all)
	}
	var rows [][]string
	for _, u := range all {
		may := "yes"
		if u.Disable != nil && *u.Disable {
			may = "no"
		}
		rows = append(rows, printables(u.Username, given(u.FirstName), given(u.LastName), may))
	}
	return s.printTable([]string{"User", "First name", "Last name", "May log in"}, rows)
}

func given[T any](t *T) (value T) {
	if t != nil {
		value = *t
	}
	return value
}

// binding returns the binding that arguments and flags describe.
func (s *session) binding() client.Binding {
	args := s.cmd.Args()
	return client.Binding{Principal: args.Get(0), Local: !s.cmd.Bool("group"),
		Grant: client.Grant{Role: args.Get(1), Tenant: cmp.Or(s.cmd.String("tenant"), everywhere)}}
}

func grantRole(s *session) error {
	b := s.binding()
	return s.done(b.Principal+" is "+inTenant(b.Role, b.Tenant), s.client.Bind(s.ctx, b))
}

func revokeRole(s *session) error {
	b := s.binding()
	all, err := s.client.Bindings(s.ctx)
	if err != nil {
		return err
	}
	for _, other := range all {
		if b.ID = other.ID; b == other {
			return s.done(b.Principal+" is not "+inTenant(b.Role, b.Tenant)+" any more", s.client.Unbind(s.ctx, b.ID))
		}
	}
	return fault.New(fault.NotFound, "%s is not %s", b.Principal, inTenant(b.Role, b.Tenant))
}

func listRoles(s *session) error {
	all, err := s.client.Bindings(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(all)
	}
	var rows [][]string
	for _, b := range all {
		kind, tenant := "group", b.Tenant
		if b.Local {
			kind = "user"
		}
		if tenant == everywhere {
			tenant = "all"
		}
		rows = append(rows, printables(b.Principal, kind, b.Role, tenant))
	}
	return s.printTable([]string{"Principal", "Kind", "Role", "Tenant"}, rows)
}

func createAPIToken(s *session) error {
	if s.cmd.String("role") == "" {
		return usageError{"--role required: one of " + strings.Join(client.Roles(), ", "), s.cmd}
	}
	wanted := client.NewAPIToken{
		Name: s.cmd.Args().First(), Role: s.cmd.String("role"), Tenants: listed(s.cmd.String("tenants")),
		TTL: s.cmd.Duration("ttl").String(),
	}
	if len(wanted.Tenants) == 0 {
		wanted.Tenants = []string{everywhere}
	}
	text, made, err := s.client.CreateAPIToken(s.ctx, wanted)
	if err != nil {
		return err
	}
	if !s.cmd.Bool("quiet") {
		fmt.Fprintf(s.errOut, "API token %s for role %s, until %s. It is not shown again.\n", made.Name, made.Role, moment(made.Expires))
	}
	_, err = fmt.Fprintln(s.out, text)
	return err
}

// listed splits a text at commas.
func listed(text string) (all []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// used formats the last use of a token, to the hour.
func used(hour time.Time) string {
	if hour.IsZero() {
		return "-"
	}
	return hour.UTC().Format("2006-01-02 15h")
}

func listAPITokens(s *session) error {
	all, err := s.client.APITokens(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(all)
	}
	slices.SortFunc(all, func(a, b client.APIToken) int { return strings.Compare(a.Name, b.Name) })
	var rows [][]string
	for _, t := range all {
		rows = append(rows, printables(t.Name, t.Role, strings.ReplaceAll(strings.Join(t.Tenants, ","), everywhere, "all"), moment(t.Expires), used(t.LastUse), t.Creator))
	}
	return s.printTable([]string{"Name", "Role", "Tenants", "Expires", "Last use", "Creator"}, rows)
}
