package netctl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netctl/credentials"
	"github.com/contiv/netplugin/utils/fault"
)

var loginTool = tool{
	name: "login", usage: "Get a token from the authenticating proxy, and keep it for later commands", run: doLogin, local: true,
	flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.StringFlag{Name: "username", Aliases: []string{"u"}, Usage: "user; asked for if not given"},
			&cli.BoolFlag{Name: "password-stdin", Usage: "read the password from standard input instead of asking"},
		}
	},
	more: "Tokens are kept per server in the file that NETCTL_CONFIG names, else `~/.netctl/config.json`, readable by " +
		"the owner only. They are sent over https only; at a plain http server a warning says so. A token that the " +
		"original netctl stored in that file counts for every https server without one of its own.",
}

var logoutTool = tool{
	name: "logout", usage: "Forget the token of the server", run: doLogout, local: true,
}

func doLogin(s *session) error {
	urls := servers(s.cmd)
	for _, url := range urls {
		if !strings.HasPrefix(url, "https://") {
			return fault.New(fault.Invalid, "login needs an https:// netmaster URL, not %s", url)
		}
	}
	in := bufio.NewReader(s.in)
	username := s.cmd.String("username")
	if username == "" {
		fmt.Fprint(s.errOut, "Username: ")
		if username = line(in); username == "" {
			return usageError{message: "username required"}
		}
	}
	password, err := s.password(in)
	if err != nil {
		return err
	}
	stored, err := credentials.Load(credentials.File())
	if err != nil {
		fmt.Fprintf(s.errOut, "warning: %v; it is replaced\n", err)
	}
	for _, url := range urls {
		token, err := s.tokenOf(url, username, password)
		if err != nil {
			return err
		}
		stored.Set(url, token)
	}
	if err := stored.Save(credentials.File()); err != nil {
		return fileError{err}
	}
	_, err = fmt.Fprintf(s.out, "Logged in at %s\n", strings.Join(urls, ", "))
	return err
}

// tokenOf logs in at one server.
func (s *session) tokenOf(url, username, password string) (string, error) {
	cfg := settings(s.cmd)
	cfg.URLs = []string{url}
	c, err := client.New(cfg)
	if err != nil {
		return "", usageError{message: fmt.Sprintf("cannot connect: %v", err)}
	}
	defer c.Close()
	return c.Login(s.ctx, username, password)
}

// password reads a password, from a terminal without showing it.
func (s *session) password(in *bufio.Reader) (string, error) {
	if s.cmd.Bool("password-stdin") {
		return line(in), nil
	}
	terminal, ok := s.in.(terminalFile)
	if !ok {
		return "", fileError{errors.New("a password is asked for on a terminal only; use --password-stdin")}
	}
	fmt.Fprint(s.errOut, "Password: ")
	password, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(s.errOut)
	if err != nil {
		return "", fileError{fmt.Errorf("a password is asked for on a terminal only; use --password-stdin: %w", err)}
	}
	return string(password), nil
}

// line reads one line; what cannot be read is empty.
func line(in io.ByteReader) string {
	var text []byte
	for {
		b, err := in.ReadByte()
		if err != nil || b == '\n' {
			return strings.TrimSuffix(string(text), "\r")
		}
		text = append(text, b)
	}
}

func doLogout(s *session) error {
	path := credentials.File()
	stored, err := credentials.Load(path)
	if err != nil {
		return fileError{err}
	}
	for _, url := range servers(s.cmd) {
		stored.Set(url, "")
	}
	stored.Token = ""
	if err := stored.Save(path); err != nil {
		return fileError{err}
	}
	_, err = fmt.Fprintf(s.out, "Logged out of %s\n", strings.Join(servers(s.cmd), ", "))
	return err
}
