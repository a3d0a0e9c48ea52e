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

// trust has servers known by an authority before they are sent a password: by one of earlier logins, by the
// system's, or by one whose pin somebody says is right. It returns why others are not known, by URL.
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

// outgrown tells whether a server's certificate is signed by an authority of the system, and by none of those that it was known by.
func (s *session) outgrown(url, by string) bool {
	if by == "" || s.cmd.IsSet("pin") || s.cmd.Bool("insecure") || s.cmd.IsSet("cacert") {
		return false
	}
	if _, err := s.authoritiesOf(url, false, by); !client.IsUnknownAuthority(err) {
		return false
	}
	_, err := s.authoritiesOf(url, false, "")
	return err == nil
}

// authorities are those by which a server is to be known from now on; none: nothing changes. What else is wrong with
// the server, the login itself will tell.
func (s *session) authorities(url string) (string, error) {
	if s.cmd.Bool("insecure") || s.cmd.IsSet("cacert") {
		return "", nil
	}
	if !s.cmd.IsSet("pin") {
		all, err := s.authoritiesOf(url, false, s.known())
		if err == nil && len(s.trusted) > 0 {
			return inPEM(all), nil // one of them may be about to replace the others
		}
		if client.IsUnknownAuthority(err) && len(s.trusted) > 0 && s.trusted[url] == "" {
			_, err = s.authoritiesOf(url, false, "")
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
	all, err := s.authoritiesOf(url, false, signer.PEM) // it may be about to be replaced, too
	return inPEM(all), err
}

// known are the authorities of earlier logins at any of the servers, in PEM.
func (s *session) known() string {
	return strings.Join(slices.Sorted(maps.Values(s.trusted)), "")
}

// authoritiesOf asks a server for its authorities, over a connection that is verified by some, by the system's if there are
// none, or not at all.
func (s *session) authoritiesOf(url string, unverified bool, by string) ([]client.Authority, error) {
	cfg := settings(s.cmd)
	cfg.URLs, cfg.Insecure = []string{url}, unverified
	if by != "" {
		cfg.Authorities = map[string]string{url: by}
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, usageError{message: fmt.Sprintf("cannot connect: %v", err)}
	}
	defer c.Close()
	return c.Authorities(s.ctx)
}

// signerOf is the authority that has signed the certificate which a server shows. Others that the server names
// are not shown to anybody: it may name those of somebody else.
func (s *session) signerOf(url string) (client.Authority, error) {
	all, err := s.authoritiesOf(url, true, "")
	if err != nil {
		return client.Authority{}, fault.New(fault.Unavailable, "%s: its certificate is refused: the authority is not known here, and the server does not name it: %w", url, err)
	}
	for _, a := range all {
		if _, err := s.authoritiesOf(url, false, a.PEM); err == nil {
			return a, nil
		}
	}
	return client.Authority{}, fault.New(fault.Denied, "%s: its certificate is not valid by any of the authorities that it names", url)
}

// isRight compares a pin with the one that is given, or asks whether it is right.
func (s *session) isRight(url, pin string) error {
	if s.cmd.IsSet("pin") {
		if given := strings.ToLower(strings.TrimSpace(s.cmd.String("pin"))); given != pin {
			return fault.New(fault.Denied, "%s: its authority has the pin %s, not the one given", url, pin)
		}
		return nil
	}
	answer := ""
	if !s.cmd.Bool("password-stdin") { // the first line is the password
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
