package owncert

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"
	"time"
)

// named returns a certificate whose subject has names in this order, such as "O=Example,CN=Bob".
func (i issuer) named(subject string) *x509.Certificate {
	i.Helper()
	types := map[string]int{"CN": 3, "SERIALNUMBER": 5, "C": 6, "L": 7, "ST": 8, "O": 10, "OU": 11}
	var names pkix.RDNSequence
	for text := range strings.SplitSeq(subject, ",") {
		of, value, _ := strings.Cut(text, "=")
		names = append(names, pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, types[of]}, Value: value}})
	}
	raw, err := asn1.Marshal(names)
	if err != nil {
		i.Fatal(err)
	}
	c, _ := i.make(&x509.Certificate{RawSubject: raw, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}, &i)
	return c
}

// A line has the subject as openssl prints it with -nameopt RFC2253: all of its names, from the last to the first. The
// order of earlier versions is accepted, too, but a second common name is never left out.
func TestALineNamesAWholeSubject(t *testing.T) {
	by := newIssuer(t)
	all, err := readMap("alice CN=Alice,OU=Net,O=Example,L=City,ST=State,C=US\nbob CN=Bob,O=Example\ncarol CN=Carol,O=Example,L=City\n" +
		"frank CN=Frank,L=City,O=Example\ndave CN=Dave,CN=Web,O=Example\neve SERIALNUMBER=7,CN=Eve,O=Example\n")
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]string{
		"C=US,ST=State,L=City,O=Example,OU=Net,CN=Alice": "alice",
		"O=Example,CN=Bob":                                 "bob",
		"O=Example,L=City,CN=Carol":                        "carol", // as in earlier versions
		"O=Example,L=City,CN=Frank":                        "frank",
		"O=Example,CN=Web,CN=Dave":                         "dave",
		"O=Example,CN=Mallory,CN=Bob":                      "",
		"CN=Mallory,O=Example,CN=Bob":                      "",
		"O=Example,CN=Eve,SERIALNUMBER=8,SERIALNUMBER=7":   "",
		"C=US,ST=State,L=City,O=Example,OU=Net,CN=Mallory": "",
	} {
		if got, mapped := all.of(by.named(subject)); got != want || mapped != (want != "") {
			t.Errorf("%s is %q, want %q", subject, got, want)
		}
	}
}
