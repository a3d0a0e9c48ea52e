package netctl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netctl/credentials"
	"github.com/contiv/netplugin/utils/fault"
)

// trust verifies servers by a CA before a password is sent to them: by one of earlier logins, by the system's, or
// by one whose pin the user confirms. It returns why other servers cannot be verified, by URL.
func (s *session) trust(urls []string, stored *credentials.Store) (unknown map[string]error) {
	s.trusted = stored.Authorities(urls...)
	unknown = map[string]error{}
	for _, url := range urls {
		if s.outgrown(url, s.trusted[url]) {
			stored.Trust(url, "")
			s.trusted = stored.Authorities(urls...)
			fmt.Fprintf(s.errOut, "%s is known by an authority of the system now; that of earlier logins is forgotten\n", url)
		}
		authorities, err := s.authorities(url)
		switch {
		case err != nil:
			unknown[url] = err
		case authorities != "":
			stored.Trust(url, authorities)
			s.trusted = stored.Authorities(urls...)
		}
	}
	return unknown
}

// outgrown reports whether a server's certificate is signed by a CA of the system, and by none of the server's
// stored CAs.
func (s *session) outgrown(url, by string) bool {
	if by == "" || s.cmd.IsSet("pin") || s.cmd.Bool("insecure") || s.cmd.IsSet("cacert") {
		return false
	}
	if _, err := s.authoritiesOf(url, by); !client.IsUnknownAuthority(err) {
		return false
	}
	_, err := s.authoritiesOf(url, "")
	return err == nil
}

// authorities returns the CAs by which a server is to be verified from now on; none: unchanged. The login itself
// reports other problems of the server.
func (s *session) authorities(url string) (string, error) {
	if s.cmd.Bool("insecure") || s.cmd.IsSet("cacert") {
		return "", nil
	}
	if !s.cmd.IsSet("pin") {
		all, err := s.authoritiesOf(url, s.known())
		if err == nil && len(s.trusted) > 0 {
			return inPEM(all), nil // one of them may be about to replace the others
		}
		if client.IsUnknownAuthority(err) && len(s.trusted) > 0 && s.trusted[url] == "" {
			_, err = s.authoritiesOf(url, "")
		}
		if !client.IsUnknownAuthority(err) {
			return "", nil
		}
	}
	signer, err := s.signerOf(url)
	if err == nil {
		err = s.isRight(url, signer.Pin)
	}
	if err != nil {
		return "", err
	}
	all, err := s.authoritiesOf(url, signer.PEM) // it may be about to be replaced, too
	return inPEM(all), err
}

// known returns the CAs of earlier logins at any of the servers, in PEM.
func (s *session) known() string {
	return strings.Join(slices.Sorted(maps.Values(s.trusted)), "")
}

// authoritiesOf requests the CAs of a server, over a connection that is verified by the CAs in by, or by the system's
// if by is empty.
func (s *session) authoritiesOf(url, by string) ([]client.Authority, error) {
	cfg := settings(s.cmd)
	cfg.URLs, cfg.Insecure = []string{url}, false
	if by != "" {
		cfg.Authorities = map[string]string{url: by}
	}
	return s.requestAuthorities(cfg)
}

// unverifiedAuthorities requests the CAs of a server, over a connection that is not verified.
func (s *session) unverifiedAuthorities(url string) ([]client.Authority, error) {
	cfg := settings(s.cmd)
	cfg.URLs, cfg.Insecure = []string{url}, true
	return s.requestAuthorities(cfg)
}

func (s *session) requestAuthorities(cfg client.Config) ([]client.Authority, error) {
	c, err := client.New(cfg)
	if err != nil {
		return nil, usageError{message: fmt.Sprintf("cannot connect: %v", err)}
	}
	defer c.Close()
	return c.Authorities(s.ctx)
}

// signerOf returns the CA that has signed the certificate of a server. Other CAs in its response are not shown to
// the user: they may be foreign ones.
func (s *session) signerOf(url string) (client.Authority, error) {
	all, err := s.unverifiedAuthorities(url)
	if err != nil {
		return client.Authority{}, fault.New(fault.Unavailable, "%s: its certificate is refused: the authority is not known here, and the server does not name it: %w", url, err)
	}
	for _, a := range all {
		if _, err := s.authoritiesOf(url, a.PEM); err == nil {
			return a, nil
		}
	}
	return client.Authority{}, fault.New(fault.Denied, "%s: its certificate is not valid by any of the authorities that it names", url)
}

// isRight compares a pin with the given one, or asks the user whether it is right.
func (s *session) isRight(url, pin string) error {
	if s.cmd.IsSet("pin") {
		if given := strings.ToLower(strings.TrimSpace(s.cmd.String("pin"))); given != pin {
			return fault.New(fault.Denied, "%s: its authority has the pin %s, not the one given", url, pin)
		}
		return nil
	}
	answer := ""
	if !s.cmd.Bool("password-stdin") { // the first line of the input is the password
		fmt.Fprintf(s.errOut, "The authority of %s is not known here. Its pin is\n\n    %s\n\n"+
			"which netctl security status shows on the machine of a netmaster. Is it the same there? (yes or no) ", url, pin)
		answer = s.line()
	}
	if answer != "yes" {
		return fault.New(fault.Denied, "%s: its authority, with the pin %s, is not known here; where netctl security status shows that pin on the machine of a netmaster, log in with --pin", url, pin)
	}
	return nil
}

func inPEM(all []client.Authority) string {
	var text strings.Builder
	for _, a := range all {
		text.WriteString(a.PEM)
	}
	return text.String()
}
