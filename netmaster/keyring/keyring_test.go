package keyring

import (
	"encoding/json"
	"errors"
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

// A damaged file is not replaced: its keys, and so all secrets, would be lost.
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

// A new key encrypts when all have it; older secrets are decrypted with the former key, and encrypted again in
// place.
func TestAnotherKeyComesInTwoSteps(t *testing.T) {
	here, there := In(t.TempDir()), In(t.TempDir())
	told := 0
	here.OnChange(func() { told++ })
	old, err := here.Seal("a", secret)
	if err != nil {
		t.Fatal(err)
	}
	own, err := there.Seal("b", secret) // it had a keyring of its own
	if err != nil {
		t.Fatal(err)
	}
	handOver := func() {
		t.Helper()
		text, err := here.HandOver()
		if err != nil {
			t.Fatal(err)
		}
		if err := there.Take(text, here.State()); err != nil || there.State() != here.State() {
			t.Fatalf("%v, %s and %s", err, here.State(), there.State())
		}
	}
	handOver()
	for _, step := range []func() error{here.Add, here.Add, here.Turn, here.Turn} {
		before := here.State()
		turning, err := here.Turning()
		if err != nil {
			t.Fatal(err)
		}
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if after, err := here.Turning(); err != nil || (after == turning) != (here.State() == before) {
			t.Errorf("state %s, then %s; turning: %t, %v", before, here.State(), after, err)
		}
		sealed, err := here.Seal("c", secret)
		if err != nil {
			t.Fatal(err)
		}
		handOver()
		if got, err := there.Open("c", sealed); got != secret {
			t.Errorf("the other one opens %q, %v", got, err)
		}
	}
	if told != 3 { // made, Add, Turn
		t.Errorf("told of %d changes", told)
	}
	value := []byte(`{"password":"` + old + `","note":"enc:v1:0:AAAA","other":"` + own + `"}`)
	now, resealed, left, err := here.Reseal("a", value)
	if err != nil || resealed != 1 || left != 2 || strings.Contains(string(now), old) || !strings.Contains(string(now), own) {
		t.Errorf("%d sealed anew, %d left, %v: %s", resealed, left, err, now)
	}
	if again, resealed, _, err := here.Reseal("a", now); err != nil || resealed != 0 || string(again) != string(now) {
		t.Errorf("again: %d, %v", resealed, err)
	}
	var text struct{ Password string }
	if err := json.Unmarshal(now, &text); err != nil {
		t.Fatal(err)
	}
	if got, err := there.Open("a", text.Password); got != secret {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := there.Open("b", own); got != secret {
		t.Errorf("what it had sealed itself: %q, %v", got, err)
	}
	if here.Opens("a", value) || !here.Opens("a", []byte(`{"password":"`+text.Password+`"}`)) {
		t.Error("what opens is not told from what does not")
	}
	for _, damaged := range []string{"", "{", `{}`, `{"primary":"aa","keys":{"aa":"AAAA"}}`} {
		if err := there.Take(damaged, ""); err == nil {
			t.Errorf("%q is taken", damaged)
		}
	}
}

// The keyring that the record names is not replaced by another one; any other one is.
func TestTheKeyringOfTheRecordStays(t *testing.T) {
	own, other := In(t.TempDir()), In(t.TempDir())
	if err := errors.Join(own.Make(), other.Make()); err != nil {
		t.Fatal(err)
	}
	text, err := other.HandOver()
	if err != nil {
		t.Fatal(err)
	}
	named := own.State()
	if err := own.Take(text, named); err != nil || own.State() != named {
		t.Errorf("the one of the record: %v, now %s", err, own.State())
	}
	for _, record := range []string{"", other.State(), "00000000"} {
		third := In(t.TempDir())
		if err := third.Make(); err != nil {
			t.Fatal(err)
		}
		if err := third.Take(text, record); err != nil || third.State() != other.State() {
			t.Errorf("the record names %q: %v, now %s", record, err, third.State())
		}
	}
}
