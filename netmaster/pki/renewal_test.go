package pki

import (
	"crypto/x509"
	"testing"
	"time"
)

// A clock that was ahead when a certificate was made leaves one that is far from due, and that is not valid yet.
func TestACertificateByAClockThatWasAheadIsRenewedOnceTheClockIsRight(t *testing.T) {
	const day = 24 * time.Hour
	made := time.Now()
	r := RenewalOf(&x509.Certificate{NotBefore: made.Add(-backdated), NotAfter: made.Add(LeafLife)}, made, 0)
	for after, due := range map[time.Duration]bool{
		0: false, -time.Minute: false, 3 * day: false, // as ever
		4 * day: true, 400 * day: true, // half of its life is over
		-2 * time.Hour: true, -2 * day: true, -400 * day: true, // it was put back
	} {
		if got := r.Left(made.Add(after)) == 0; got != due {
			t.Errorf("%s later it is due: %t, want %t", after, got, due)
		}
	}
	// The issuer's clock may have been ahead, while the holder's is right.
	foreign := RenewalOf(&x509.Certificate{NotBefore: made.Add(9 * day), NotAfter: made.Add(17 * day)}, made, 0)
	if foreign.Left(made.Add(time.Minute)) != 0 || (Renewal{}).Left(made) != 0 {
		t.Error("one that has not begun, or none, is not due")
	}
}
