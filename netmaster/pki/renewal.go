package pki

import (
	"crypto/x509"
	"time"
)

// steps is how far a clock may be set back by its synchronisation.
const steps = time.Hour

// Renewal is the time at which a certificate is renewed, by the clock, which includes suspension. The zero Renewal
// is due.
type Renewal struct {
	had, begins, due time.Time
}

// RenewalOf returns the renewal of a certificate received now: after half of its remaining lifetime, a little
// earlier or later, so that daemons that joined together do not renew together. spread is random, from 0 to 1.
func RenewalOf(c *x509.Certificate, now time.Time, spread float64) Renewal {
	now = now.Round(0)
	return Renewal{now, c.NotBefore, now.Add(time.Duration(float64(c.NotAfter.Sub(now)) * (0.45 + 0.1*spread)))}
}

// Left returns the time until then, 0 if it is due. It is also due when the clock is set back to before the time
// of receipt, or before the certificate's start: then it was issued by a clock that was ahead, maybe by years, and
// no peer would accept it.
func (r Renewal) Left(now time.Time) time.Duration {
	if now.Before(r.begins) || now.Before(r.had.Add(-steps)) {
		return 0
	}
	return max(0, r.due.Sub(now.Round(0)))
}
