package owncert

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

// users are user names by subject or key hash of their certificates.
type users map[string]string

// keyPrefix is the prefix of the hash of a public key (pki.KeyHash). Everything else is a subject.
const keyPrefix = "key:"

// readMap parses lines of a user name and the identification of the user's certificate, the subject in the form of
// package pkix or the SHA-256 of the public key. That form is RFC 2253, but with numbers for DC, UID and emailAddress:
//
//	alice  CN=Alice Ames,OU=Network,O=Example
//	bob    key:0f5c...
//
// Empty lines, and those that begin with #, are ignored. Errors are fault.Invalid.
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

// of returns the user of a certificate.
func (u users) of(c *x509.Certificate) (name string, mapped bool) {
	for _, has := range append([]string{keyPrefix + pki.KeyHash(c)}, subjects(c)...) {
		if name, mapped = u[has]; mapped {
			break
		}
	}
	return name, mapped
}

// subjects returns the subject of a certificate as lines may have it: in its own order, and in that of package pkix,
// the only one in earlier versions. The latter leaves out all but the last of several common names: then it may be the
// subject of somebody else, and is none here.
func subjects(c *x509.Certificate) (all []string) {
	var names pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &names); err == nil { // package x509 has read it
		all = append(all, names.String())
	}
	seen := map[string]bool{}
	for _, name := range c.Subject.Names {
		of := name.Type.String()
		if seen[of] && (of == commonName || of == serialNumber) {
			return all
		}
		seen[of] = true
	}
	return append(all, c.Subject.String())
}

// Types of names of which pkix.Name has only one.
const (
	commonName   = "2.5.4.3"
	serialNumber = "2.5.4.5"
)
