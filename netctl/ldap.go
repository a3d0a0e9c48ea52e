package netctl

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Default ports of LDAP servers.
const (
	ldapPort  = 389 // with StartTLS
	ldapsPort = 636
)

var ldapFamily = family{name: "ldap", usage: "The LDAP directory whose users log in with their passwords", tools: []tool{
	{name: "set", usage: "Say how the directory is reached, or change it", run: setDirectory, flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.StringFlag{Name: "server", Usage: "its name or address", OnlyOnce: true},
			&cli.IntFlag{Name: "port", Usage: "its port (default: 636, or 389 with --start-tls)", OnlyOnce: true},
			&cli.StringFlag{Name: "base-dn", Usage: "where users are looked for", OnlyOnce: true},
			&cli.StringFlag{Name: "account", Usage: "DN of the account that looks for them", OnlyOnce: true},
			&cli.BoolFlag{Name: "password-stdin", Usage: "read the password of the account from standard input"},
			&cli.StringFlag{Name: "user-attribute", Usage: "attribute that has the name of a user (default: sAMAccountName)", OnlyOnce: true},
			&cli.BoolFlag{Name: "start-tls", Usage: "begin in plain and go on with TLS; otherwise TLS begins at once"},
			&cli.StringFlag{Name: "ca", TakesFile: true, Usage: "file with the authorities of its certificate (default, and with an empty name: those of the system)", OnlyOnce: true},
			&cli.StringFlag{Name: "issued-to", Usage: "name in its certificate, if it is not that of the server", OnlyOnce: true},
			&cli.BoolFlag{Name: "skip-verify", Usage: "believe whatever certificate: whoever answers in its place learns passwords"},
		}
	}, more: "What is not given stays as it is, where there is a directory already. Its users may what their groups may: " +
		"`netctl role grant --group DN ROLE`. A local user of the same name comes first. The password is stored sealed, and never shown."},
	{name: "show", usage: "Show how the directory is reached, but for the password", run: showDirectory, flags: func() []cli.Flag { return []cli.Flag{outputFlag(documentFormats)} }},
	{name: "rm", usage: "Forget the directory; sessions go on until they end", run: func(s *session) error {
		return s.done("Removed the LDAP directory", s.client.RemoveDirectory(s.ctx))
	}},
}}

func setDirectory(s *session) error {
	config, err := s.directory()
	if err != nil {
		return err
	}
	stored, err := s.client.Directory(s.ctx)
	isNew := fault.Is(err, fault.NotFound)
	if err != nil && !isNew {
		return err
	}
	if port, other := defaultPorts(given(config.StartTLS)); config.Port == nil && (isNew || config.StartTLS != nil && given(stored.Port) == other) {
		config.Port = &port
	}
	if isNew {
		err = s.client.SetDirectory(s.ctx, config)
	} else {
		err = s.client.ChangeDirectory(s.ctx, config)
	}
	return s.done("Set the LDAP directory", err)
}

// defaultPorts returns the default port with StartTLS, or without, and that of the other way.
func defaultPorts(startTLS bool) (port, other int) {
	if startTLS {
		return ldapPort, ldapsPort
	}
	return ldapsPort, ldapPort
}

// directory returns the configuration that the flags describe.
func (s *session) directory() (contivmodel.LDAPConfig, error) {
	var config contivmodel.LDAPConfig
	for flag, field := range map[string]**string{"server": &config.Server, "base-dn": &config.BaseDN, "account": &config.Account,
		"user-attribute": &config.UserAttribute, "issued-to": &config.IssuedTo} {
		if s.cmd.IsSet(flag) {
			text := s.cmd.String(flag)
			*field = &text
		}
	}
	for flag, field := range map[string]**bool{"start-tls": &config.StartTLS, "skip-verify": &config.SkipVerify} {
		if s.cmd.IsSet(flag) {
			yes := s.cmd.Bool(flag)
			*field = &yes
		}
	}
	if s.cmd.IsSet("port") {
		port := s.cmd.Int("port")
		config.Port = &port
	}
	authorities, err := s.fileOf("ca")
	config.Authorities = authorities
	if err == nil && s.cmd.Bool("password-stdin") {
		password := s.line()
		config.Password = &password
	}
	return config, err
}

func showDirectory(s *session) error {
	config, err := s.client.Directory(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(config)
	}
	encrypted, authorities := "from the beginning", "those of the system"
	if given(config.StartTLS) {
		encrypted = "after StartTLS"
	}
	if given(config.Authorities) != "" {
		authorities = "its own"
	}
	if given(config.SkipVerify) {
		authorities = "none: its certificate is not verified"
	}
	for _, row := range [][2]string{{"Server", given(config.Server)}, {"Port", strconv.Itoa(given(config.Port))}, {"Base DN", given(config.BaseDN)}, {"Account", given(config.Account)},
		{"User attribute", given(config.UserAttribute)}, {"TLS", encrypted}, {"Authorities", authorities}, {"Issued to", given(config.IssuedTo)}} {
		if _, err := fmt.Fprintf(s.out, "%-16s%s\n", row[0]+":", printable(row[1])); err != nil {
			return err
		}
	}
	return nil
}
