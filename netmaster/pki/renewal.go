package pki

import (
	"crypto/x509"
	"time"
)

// steps is how far a clock is put back by who keeps it right.
const steps = time.Hour

// Renewal is when a certificate is renewed, by the clock, which goes on while the machine sleeps. The zero Renewal is due.
type Renewal struct {
	had, begins, due time.Time
}

// RenewalOf is that of a certificate that is had now: after half of the time that it is
// still good for, a little earlier or later so that those who joined together do not come
// together. spread is at random from 0 to 1.
func RenewalOf(c *x509.Certificate, now time.Time, spread float64) Renewal {
	now = now.Round(0)
	return Renewal{now, c.NotBefore, now.Add(time.Duration(float64(c.NotAfter.Sub(now)) * (0.45 + 0.1*spread)))}
}

// Left is the time until then, 0 if it is due. It is, too, when the clock is put back behind the time at which the certificate was had, or
// is before its begin: it is by a clock that was ahead, maybe by years, in which nobody would take it.
func (r Renewal) Left(now time.Time) time.Duration {
	if now.Before(r.begins) || now.Before(r.had.Add(-steps)) {
		return 0
	}
	return max(0, r.due.Sub(now.Round(0)))
}
