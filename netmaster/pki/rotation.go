package pki

import (
	"crypto/x509"
	"fmt"
	"strconv"
	"time"
)

// Authorities are replaced in three steps, each when everybody knows what the one before
// it has made of the bundle, the certificates that are believed:
//
//	Add     [old]       a new one is believed beside the old one
//	Switch  [old new]   the new one signs, and certificates are made anew
//	Drop    [new old]   the old one is not believed any more
//	        [new]
//
// The first of a bundle is the one that signs. So who knows the bundle knows the step, and
// a daemon whose bundle is the present one has a certificate by the one that signs, for it
// gets the two together.

// Step is one of those that replace authorities.
type Step string

// The steps.
const (
	Add    Step = "add"
	Switch Step = "switch"
	Drop   Step = "drop"
)

// Bundle is the certificates that are believed, the one that signs first.
func (a *Authority) Bundle() []*x509.Certificate {
	all := []*x509.Certificate{a.Certificate}
	for _, other := range a.beside {
		all = append(all, other.Certificate)
	}
	return all
}

// Step is the next one. The authority of servers tells: it is the last that is written.
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

// Next is what the next step makes of authorities. Where it was interrupted while it was
// written down, those that it has come to stay as they are: they are one step ahead.
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

// generation is 1 for the authorities that a cluster was founded with, and one more for
// each that has replaced them. It is in the name of the certificate.
func (a *Authority) generation() int {
	if n, err := strconv.Atoi(a.Certificate.Subject.SerialNumber); err == nil {
		return n
	}
	return 1
}
