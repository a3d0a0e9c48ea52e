package owncert

import (
	"crypto/x509"
	"strings"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

// users are names of users by what their certificates have.
type users map[string]string

// keyPrefix marks the hash of a public key, as pki.KeyHash makes it. All else is a subject.
const keyPrefix = "key:"

// readMap reads lines of a user and what the user's certificate has, the subject in the
// form of RFC 2253 or the SHA-256 of the public key:
//
//	alice  CN=Alice Ames,OU=Network,O=Example
//	bob    key:0f5c...
//
// Empty lines, and those that begin with #, say nothing. Errors are fault.Invalid.
func readMap(text string) (users, error) {
	found := users{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, has, _ := strings.Cut(line, " ")
		has = strings.TrimSpace(has)
		switch _, twice := found[has]; {
		case !identity.ValidName(name) || has == "":
			return nil, fault.New(fault.Invalid, "line %d: want the name of a user and the subject of the certificate, or %s and the hash of its key", number, keyPrefix)
		case twice:
			return nil, fault.New(fault.Invalid, "line %d: %s stands for %s already", number, has, found[has])
		}
		found[has] = name
	}
	return found, nil
}

// of is the user that a certificate stands for.
func (u users) of(c *x509.Certificate) (name string, mapped bool) {
	if name, mapped = u[keyPrefix+pki.KeyHash(c)]; !mapped {
		name, mapped = u[c.Subject.String()]
	}
	return name, mapped
}
