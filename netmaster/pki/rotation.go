package pki

import (
	"crypto/x509"
	"fmt"
	"strconv"
	"time"
)

// CAs are replaced in three steps, each when all daemons have the result of the previous one in their bundle, the
// trusted certificates:
//
//	Add     [old]       a new one is trusted beside the old one
//	Switch  [old new]   the new one signs, and certificates are issued again
//	Drop    [new old]   the old one is no longer trusted
//	        [new]
//
// The first certificate of a bundle is the one that signs. So the bundle determines the step, and a daemon with
// the present bundle has a certificate of the signing CA, since it receives the two together.

// Step is a step in the replacement of CAs.
type Step string

// The steps.
const (
	Add    Step = "add"
	Switch Step = "switch"
	Drop   Step = "drop"
)

// Bundle returns the trusted certificates, the signing one first.
func (a *Authority) Bundle() []*x509.Certificate {
	all := []*x509.Certificate{a.Certificate}
	for _, other := range a.beside {
		all = append(all, other.Certificate)
	}
	return all
}

// Step returns the next step. It depends on the CA of servers, which is written last.
func (a Authorities) Step() Step { return a[API].step() }

func (a *Authority) step() Step {
	switch {
	case len(a.beside) == 0:
		return Add
	case a.beside[0].generation() > a.generation():
		return Switch
	}
	return Drop
}

// Next returns the CAs after the next step. If that step was interrupted while it was written, CAs that already
// have it are unchanged.
func (a Authorities) Next(now time.Time) (Authorities, error) {
	next, step := Authorities{}, a.Step()
	for role, one := range a {
		if one.step() != step {
			next[role] = one
			continue
		}
		switch replaced := *one; step {
		case Add:
			other, err := newAuthority(role, one.Cluster, one.generation()+1, now)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", role, err)
			}
			replaced.beside = []*Authority{other}
			next[role] = &replaced
		case Switch:
			signs := *one.beside[0]
			replaced.beside = nil
			signs.beside = []*Authority{&replaced}
			next[role] = &signs
		case Drop:
			replaced.beside = nil
			next[role] = &replaced
		}
	}
	return next, nil
}

// generation returns 1 for the CAs with which a cluster was founded, and one more for each replacement. It is in
// the name of the certificate.
func (a *Authority) generation() int {
	if n, err := strconv.Atoi(a.Certificate.Subject.SerialNumber); err == nil {
		return n
	}
	return 1
}
