// Package directory queries an LDAP directory, such as Active Directory, whether a password is right, and which
// groups a user is in.
//
// Each query uses a connection of its own. The service account searches the only entry with the user's name, a
// bind with this entry and the password verifies the password, and the service account collects the groups of the
// entry, including nested ones. All of it is encrypted and ends within a few seconds, whatever the directory
// sends: one that is unavailable, slow or malicious makes only the login fail.
package directory

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Limits for the directory.
const (
	timeLimit = 5 * time.Second
	depth     = 8        // of nested groups
	mostFound = 1000     // groups
	mostBytes = 16 << 20 // of all answers together
)

// DefaultUserAttribute is the attribute of Active Directory, the only one that the original controller supported.
const DefaultUserAttribute = "sAMAccountName"

// Config is the configuration of a directory.
type Config struct {
	Server          string
	Port            int
	BaseDN          string // base DN of users
	Account         string // DN of the service account
	AccountPassword secret.Text
	StartTLS        bool          // otherwise the connection begins with TLS
	SkipVerify      bool          // accept any certificate
	IssuedTo        string        // name in the certificate; empty: Server
	Authorities     string        // PEM, the CAs; empty: the system's
	UserAttribute   string        // with the user name
	TimeLimit       time.Duration // of a login; 0: 5 s
}

// ErrWrong is also the error for unknown names.
var ErrWrong = fault.New(fault.Denied, "wrong name or password")

// Groups returns the DNs of the groups of a user, if the password is right. Errors: ErrWrong if it is not,
// fault.Unavailable if the directory does not answer.
func (c Config) Groups(ctx context.Context, name, password string) ([]string, error) {
	if name == "" || password == "" {
		return nil, ErrWrong // servers accept an empty password, as anonymous
	}
	limit := cmp.Or(c.TimeLimit, timeLimit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unavailable(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetTimeout(limit)

	if err := conn.Bind(c.Account, string(c.AccountPassword)); err != nil {
		return nil, c.unavailable(fmt.Errorf("account %s: %w", c.Account, err))
	}
	person, err := c.find(conn, name)
	if err != nil {
		return nil, err
	}
	switch err := conn.Bind(person.DN, password); {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials):
		return nil, ErrWrong
	case err != nil:
		return nil, c.unavailable(fmt.Errorf("%s: %w", person.DN, err))
	}
	if err := conn.Bind(c.Account, string(c.AccountPassword)); err != nil { // users may not be able to read groups
		return nil, c.unavailable(fmt.Errorf("account %s: %w", c.Account, err))
	}
	return c.follow(conn, person.GetAttributeValues(memberOf))
}

const memberOf = "memberOf"

// find returns the only entry of a name.
func (c Config) find(conn *ldap.Conn, name string) (*ldap.Entry, error) {
	found, err := conn.Search(ldap.NewSearchRequest(c.BaseDN, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 2, int(timeLimit/time.Second), false,
		fmt.Sprintf("(%s=%s)", c.UserAttribute, ldap.EscapeFilter(name)), []string{memberOf}, nil))
	tooMany := ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded)
	switch {
	case err != nil && !tooMany:
		return nil, c.unavailable(fmt.Errorf("search below %s: %w", c.BaseDN, err))
	case tooMany || len(found.Entries) > 1:
		return nil, c.unavailable(fmt.Errorf("search below %s: several entries have the %s %.64q", c.BaseDN, c.UserAttribute, name))
	case len(found.Entries) == 0 || found.Entries[0].DN == "":
		return nil, ErrWrong // a bind without a name would succeed
	}
	return found.Entries[0], nil
}

// follow adds the groups that contain the groups, each once.
func (c Config) follow(conn *ldap.Conn, direct []string) ([]string, error) {
	seen := map[string]bool{}
	var all []string
	next := direct
	for range depth {
		level := next
		next = nil
		for _, dn := range level {
			if seen[strings.ToLower(dn)] {
				continue
			}
			if len(all) == mostFound {
				return nil, c.unavailable(fmt.Errorf("more than %d groups", mostFound))
			}
			seen[strings.ToLower(dn)] = true
			all = append(all, dn)
			found, err := conn.Search(ldap.NewSearchRequest(dn, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 1, int(timeLimit/time.Second), false,
				"(objectClass=*)", []string{memberOf}, nil))
			if ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultReferral, ldap.LDAPResultInsufficientAccessRights) {
				continue // a group of another directory, which is in no group here
			}
			if err != nil {
				return nil, c.unavailable(fmt.Errorf("group %.200s: %w", dn, err))
			}
			for _, entry := range found.Entries {
				next = append(next, entry.GetAttributeValues(memberOf)...)
			}
		}
	}
	return all, nil
}

func (c Config) unavailable(err error) error {
	return fault.New(fault.Unavailable, "directory %s: %w", c.Server, err)
}

// dial opens an encrypted connection.
func (c Config) dial(ctx context.Context) (*ldap.Conn, error) {
	security, err := c.tls()
	if err != nil {
		return nil, err
	}
	plain, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(c.Server, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = plain.SetDeadline(deadline) // an error shows at the first read
	}
	bounded := &bounded{Conn: plain, left: mostBytes}
	if !c.StartTLS {
		secured := tls.Client(bounded, security)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
		conn := ldap.NewConn(secured, true)
		conn.Start()
		return conn, nil
	}
	conn := ldap.NewConn(bounded, false)
	conn.Start()
	conn.SetTimeout(timeLimit)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.StartTLS(security); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (c Config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(c.IssuedTo, c.Server), InsecureSkipVerify: c.SkipVerify}
	if c.Authorities == "" {
		return t, nil
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM([]byte(c.Authorities)) {
		return nil, errors.New("no certificate in the authorities that it is known by")
	}
	return t, nil
}

// bounded is a connection that ends after a number of bytes.
type bounded struct {
	net.Conn
	left int
}

var errTooMuch = fmt.Errorf("more than %d bytes of answers: %w", mostBytes, io.ErrUnexpectedEOF)

// Read implements net.Conn. It must be called by one goroutine.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}
