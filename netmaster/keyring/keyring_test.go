package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secret = "correct horse battery"

func TestWhatIsSealedOpensAtItsPlaceOnly(t *testing.T) {
	dir := t.TempDir()
	k := In(dir)
	sealed, err := k.Seal("a", secret)
	if err != nil || !strings.HasPrefix(sealed, "enc:v1:") || strings.Contains(sealed, secret) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if again, err := k.Seal("a", secret); err != nil || again == sealed {
		t.Errorf("sealed twice it is the same: %v", err)
	}
	if got, err := In(dir).Open("a", sealed); err != nil || got != secret {
		t.Errorf("%q, %v", got, err)
	}
	info, err := os.Stat(filepath.Join(dir, Name))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	last := byte('A')
	if sealed[len(sealed)-10] == last {
		last = 'B'
	}
	other := In(t.TempDir())
	if _, err := other.Seal("a", secret); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (string, error){
		"another place": func() (string, error) { return k.Open("b", sealed) },
		"altered": func() (string, error) {
			return k.Open("a", sealed[:len(sealed)-10]+string(last)+sealed[len(sealed)-9:])
		},
		"cut":              func() (string, error) { return k.Open("a", sealed[:len(sealed)-8]) },
		"plain":            func() (string, error) { return k.Open("a", secret) },
		"empty":            func() (string, error) { return k.Open("a", "") },
		"another keyring":  func() (string, error) { return other.Open("a", sealed) },
		"no keyring":       func() (string, error) { return In(t.TempDir()).Open("a", sealed) },
		"without a place":  func() (string, error) { return (*Keyring)(nil).Open("a", sealed) },
		"nothing is there": func() (string, error) { return k.Open("a", "enc:v1:00:") },
	} {
		if got, err := open(); err == nil || got != "" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := (*Keyring)(nil).Seal("a", secret); err == nil {
		t.Error("sealed without a key")
	}
}

// A damaged file is not replaced: what it opened would be lost.
func TestADamagedKeyringStays(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Name), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if sealed, err := In(dir).Seal("a", secret); err == nil {
		t.Errorf("sealed with it: %s", sealed)
	}
	if text, err := os.ReadFile(filepath.Join(dir, Name)); string(text) != "{" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
