package keyring

import (
	"bytes"
	"testing"
)

// The cost of encrypting a value of the size of an endpoint's record, besides copying it.
func BenchmarkValues(b *testing.B) {
	v := made(b, b.TempDir()).Values()
	value := bytes.Repeat([]byte("x"), 700)
	sealed, err := v.Seal("/contiv.io/state/eps/a", value)
	if err != nil {
		b.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"seal": func() error { _, err := v.Seal("/contiv.io/state/eps/a", value); return err },
		"open": func() error { _, err := v.Open("/contiv.io/state/eps/a", sealed); return err },
		"copy": func() error { bytes.Clone(value); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
