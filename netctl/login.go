package netctl

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netctl/credentials"
	"github.com/contiv/netplugin/utils/fault"
)

var loginTool = tool{
	name: "login", usage: "Log in at a netmaster, or an authenticating proxy, and keep the token for later commands", run: doLogin, local: true,
	flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.StringFlag{Name: "username", Aliases: []string{"u"}, Usage: "user; asked for if not given"},
			passwordStdinFlag(),
			&cli.StringFlag{Name: "pin", Usage: "pin of the cluster's authority, as security status shows it, instead of the question whether it is right", OnlyOnce: true},
			&cli.BoolFlag{Name: "openid", Usage: "log in with a browser, at the OpenID Connect provider of the cluster"},
			&cli.BoolFlag{Name: "paste", Usage: "with --openid: the browser is elsewhere; ask for the address that it ends at"},
			&cli.IntFlag{Name: "port", Usage: "with --openid: port that the browser comes back to (default: any)", OnlyOnce: true},
		}
	},
	more: "Tokens are kept per server in the file that NETCTL_CONFIG names, else `~/.netctl/config.json`, readable by " +
		"the owner only. They are sent over https only; at a plain http server a warning says so. A token that the " +
		"original netctl stored in that file counts for every https server without one of its own. " +
		"A server whose certificate is of an authority that this machine does not know is sent nothing before somebody has said that the authority's pin is right: " +
		"`netctl security status` shows it on the machine of a netmaster. Later commands know the server by that authority then; logout does not forget it. " +
		fmt.Sprintf("Where it fails at some of several servers, the others count, and the exit code is %d.", exitPartial),
}

var logoutTool = tool{
	name: "logout", usage: "End the session at the server, and forget its token", run: doLogout, local: true,
	more: "The token is forgotten even if the server cannot be asked, which is worth a warning. " +
		"A token that the original netctl stored is forgotten where it was the one that counted.",
}

func doLogin(s *session) error {
	urls := servers(s.cmd)
	for _, url := range urls {
		if !strings.HasPrefix(url, "https://") {
			return fault.New(fault.Invalid, "login needs an https:// netmaster URL, not %s", url)
		}
	}
	if err := wayOfLogin(s.cmd); err != nil {
		return err
	}
	stored, err := credentials.Load(credentials.File())
	if err != nil {
		fmt.Fprintf(s.errOut, "warning: %v; it is replaced\n", err)
	}
	known := stored.Authorities(urls...)
	failed := s.trust(urls, &stored)
	if !maps.Equal(known, s.trusted) { // also after a failed login: the user has confirmed them
		if err := stored.Save(credentials.File()); err != nil {
			return fileError{err}
		}
	}
	if len(failed) < len(urls) {
		if err := s.logIn(urls, &stored, failed); err != nil {
			return err
		}
	}
	return s.loggedIn(urls, failed)
}

// logIn logs in at the servers without a failure so far, and stores each token as soon as it is received: a
// session whose token is lost could not be ended. Errors are recorded by server, but a refusal by the first that
// answers ends the login.
func (s *session) logIn(urls []string, stored *credentials.Store, failed map[string]error) error {
	tokenOf := s.tokenByBrowser
	if !s.cmd.Bool("openid") {
		username, password, err := s.credentials()
		if err != nil {
			return err
		}
		tokenOf = func(url string) (string, error) { return s.tokenOf(url, username, password) }
	}
	done := false
	for _, url := range urls {
		if failed[url] != nil {
			continue
		}
		token, err := tokenOf(url)
		if fault.Is(err, fault.Denied) && !done || s.ctx.Err() != nil {
			return err // the cluster's other servers refuse it, too, and each counts a wrong guess
		}
		if err != nil {
			failed[url] = err
			continue
		}
		done = true
		stored.Set(url, token)
		if err := stored.Save(credentials.File()); err != nil {
			_ = s.endSession(url, token) // the error about the file is the one to report
			return fileError{err}
		}
	}
	return nil
}

// loggedIn prints where the login has succeeded, and warns where it has not. If it has succeeded nowhere, it
// returns the first server's failure.
func (s *session) loggedIn(urls []string, failed map[string]error) error {
	var done []string
	for i, url := range urls {
		switch {
		case failed[url] == nil:
			done = append(done, url)
		case i > 0 || len(failed) < len(urls):
			fmt.Fprintf(s.errOut, "warning: not logged in at %s: %v\n", url, failed[url])
		}
	}
	if len(done) == 0 {
		return failed[urls[0]]
	}
	if _, err := fmt.Fprintf(s.out, "Logged in at %s\n", strings.Join(done, ", ")); err != nil {
		return err
	}
	if len(failed) > 0 {
		return outcomeCode(exitPartial)
	}
	return nil
}

// wayOfLogin refuses flags that contradict each other.
func wayOfLogin(cmd *cli.Command) error {
	if cmd.IsSet("pin") && (cmd.Bool("insecure") || cmd.IsSet("cacert")) {
		return usageError{"--pin goes neither with --insecure nor with --cacert", cmd}
	}
	others, message := []string{"paste", "port"}, "--%s goes with --openid only"
	if cmd.Bool("openid") {
		others, message = []string{"username", "password-stdin"}, "--openid and --%s cannot be given together"
	}
	for _, other := range others {
		if cmd.IsSet(other) {
			return usageError{fmt.Sprintf(message, other), cmd}
		}
	}
	return nil
}

// credentials returns the name and the password for the login.
func (s *session) credentials() (username, password string, err error) {
	if username = s.cmd.String("username"); username == "" {
		fmt.Fprint(s.errOut, "Username: ")
		if username = s.line(); username == "" {
			return "", "", usageError{message: "username required"}
		}
	}
	password, err = s.password()
	return username, password, err
}

// tokenOf logs in at one server with a password and returns the token.
func (s *session) tokenOf(url, username, password string) (string, error) {
	c, err := s.at(url, "")
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Login(s.ctx, username, password)
}

// endSession logs out at one server; a missing session is not an error.
func (s *session) endSession(url, token string) error {
	if token == "" || !strings.HasPrefix(url, "https://") {
		return nil
	}
	c, err := s.at(url, token)
	if err != nil {
		return err
	}
	defer c.Close()
	if err = c.Logout(s.ctx); fault.Is(err, fault.Denied) || fault.Is(err, fault.Mode) {
		return nil // it has ended, or the original's proxy has no logout
	}
	return err
}

// forget removes the token of a server. The token of the original netctl, which applies to all servers without one
// of their own, is removed with the session of a server that it was sent to, and retained otherwise.
func forget(stored *credentials.Store, url string) {
	if strings.HasPrefix(url, "https://") && stored.For(url) == stored.Token {
		stored.Token = ""
	}
	stored.Set(url, "")
}

// at returns a client of one server.
func (s *session) at(url, token string) (*client.Client, error) {
	cfg := settings(s.cmd)
	cfg.URLs, cfg.Token, cfg.Authorities = []string{url}, token, s.trusted
	c, err := client.New(cfg)
	if err != nil {
		return nil, usageError{message: fmt.Sprintf("cannot connect: %v", err)}
	}
	return c, nil
}

// password reads the password for a login.
func (s *session) password() (string, error) {
	if s.cmd.Bool("password-stdin") {
		return s.line(), nil
	}
	return s.asked("Password: ")
}

// newPassword reads the new password of a user; from a terminal twice.
func (s *session) newPassword() (string, error) {
	if s.cmd.Bool("password-stdin") {
		return s.line(), nil
	}
	password, err := s.asked("New password: ")
	if err != nil {
		return "", err
	}
	again, err := s.asked("Once more: ")
	if err == nil && again != password {
		err = usageError{message: "the two are not the same"}
	}
	return password, err
}

// asked reads a secret from a terminal, without echo.
func (s *session) asked(prompt string) (string, error) {
	terminal, ok := s.in.(terminalFile)
	if !ok {
		return "", fileError{errors.New("a password is asked for on a terminal only; use --password-stdin")}
	}
	fmt.Fprint(s.errOut, prompt)
	password, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(s.errOut)
	if err != nil {
		return "", fileError{fmt.Errorf("a password is asked for on a terminal only; use --password-stdin: %w", err)}
	}
	return string(password), nil
}

// line reads one line of the input; empty on an error.
func (s *session) line() string {
	var text []byte
	for {
		b, err := s.lines.ReadByte()
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
	s.trusted = stored.Authorities(servers(s.cmd)...)
	for _, url := range servers(s.cmd) {
		if err := s.endSession(url, stored.For(url)); err != nil {
			fmt.Fprintf(s.errOut, "warning: %s: the session may go on until its token expires: %v\n", url, err)
		}
	}
	for _, url := range servers(s.cmd) { // after the prompts that apply to several servers
		forget(&stored, url)
	}
	if err := stored.Save(path); err != nil {
		return fileError{err}
	}
	_, err = fmt.Fprintf(s.out, "Logged out of %s\n", strings.Join(servers(s.cmd), ", "))
	return err
}
