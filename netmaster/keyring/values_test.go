package keyring

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A value can be decrypted at its key only. Without the key that has encrypted it there is an error, and a damaged
// value is no record.
func TestValuesOpenAtTheirKey(t *testing.T) {
	dir := t.TempDir()
	v := made(t, dir).Values()
	value := []byte(`{"tenantName":"canary"}`)
	sealed, err := v.Seal("/a", value)
	if err != nil || !bytes.HasPrefix(sealed, []byte("enc:v1:")) || bytes.Contains(sealed, []byte("canary")) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if v.Met() {
		t.Error("a sealed value was met before one came")
	}
	if got, err := In(dir).Values().Open("/a", sealed); err != nil || !bytes.Equal(got, value) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := v.Open("/a", value); err != nil || !bytes.Equal(got, value) || v.Met() {
		t.Errorf("a plain one: %q, %v; met a sealed one: %t", got, err, v.Met())
	}
	altered := bytes.Clone(sealed)
	altered[len(altered)-1] ^= 1
	for name, c := range map[string]struct {
		key    string
		stored []byte
	}{"of another key": {"/b", sealed}, "altered": {"/a", altered}, "cut": {"/a", sealed[:len(sealed)-len(value)-20]}, "of a key in the middle": {"/a", append([]byte("x"), sealed...)}} {
		if got, err := v.Open(c.key, c.stored); err != nil || !bytes.Equal(got, c.stored) {
			t.Errorf("%s: %q, %v; want it as it is", name, got, err)
		}
	}
	for name, ring := range map[string]*Keyring{"another keyring": made(t, t.TempDir()), "no keyring": In(t.TempDir())} {
		got, err := ring.Values().Open("/a", sealed)
		if err == nil || got != nil || !strings.Contains(err.Error(), "/a") || !strings.Contains(err.Error(), "copy") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Values are current until another key encrypts, or none does any more.
func TestValuesAreCurrentUntilAnotherKeySeals(t *testing.T) {
	ring := made(t, t.TempDir())
	v := ring.Values()
	sealed, err := v.Seal("/a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, plain, closed bool) {
		t.Helper()
		for stored, want := range map[string]bool{"1": plain, string(sealed): closed} {
			if got, err := v.IsCurrent([]byte(stored)); err != nil || got != want {
				t.Errorf("%s: %q is current: %t, %v", when, stored, got, err)
			}
		}
	}
	expect("not sealing", true, false)
	v.SetSealing(true)
	expect("sealing", false, true)
	if err := ring.Add(); err != nil {
		t.Fatal(err)
	}
	expect("before another key seals", false, true)
	if err := ring.Turn(); err != nil {
		t.Fatal(err)
	}
	expect("when it does", false, false)
	if got, err := v.Open("/a", sealed); err != nil || string(got) != "1" {
		t.Errorf("with the older key: %q, %v", got, err)
	}
}

// The file is read when it is another one, as a backup that was put back, and not for each value.
func TestAKeyringThatWasReplacedIsReadAgain(t *testing.T) {
	ring, other := made(t, t.TempDir()), made(t, t.TempDir())
	v := ring.Values()
	if _, err := v.Seal("/a", nil); err != nil {
		t.Fatal(err)
	}
	sealed, err := other.Values().Seal("/a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open("/a", sealed); err == nil {
		t.Fatal("opened without the key")
	}
	text, err := other.HandOver()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(ring.path), "new")
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, ring.path); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Open("/a", sealed); err != nil || string(got) != "1" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Remove(ring.path); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open("/a", sealed); err == nil {
		t.Error("opened without a file")
	}
}

// If the keyring is lost nothing is encrypted, and no other one is made: other netmasters could not decrypt its
// values.
func TestValuesAreSealedWithNoOtherKeyringThanTheClusters(t *testing.T) {
	ring := made(t, t.TempDir())
	v := ring.Values()
	v.SetSealing(true)
	if err := os.Remove(ring.path); err != nil {
		t.Fatal(err)
	}
	if sealed, err := v.Seal("/a", []byte("1")); err == nil || !strings.Contains(err.Error(), "copy") {
		t.Errorf("sealed as %q, %v", sealed, err)
	}
	if _, err := v.IsCurrent([]byte("1")); err == nil {
		t.Error("it is known what seals")
	}
	if ring.State() != "" {
		t.Error("there is another keyring")
	}
}

// made is the keyring of a directory, with a key.
func made(t testing.TB, dir string) *Keyring {
	t.Helper()
	ring := In(dir)
	if err := ring.Make(); err != nil {
		t.Fatal(err)
	}
	return ring
}
