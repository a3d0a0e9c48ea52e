package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A package that was installed after the start of the program may not be the running one; if either time is
// unknown, it is not reported.
func TestAPackageThatCameAfterTheProgramIsTold(t *testing.T) {
	dir := t.TempDir()
	p := switchPackage{filepath.Join(dir, "status")}
	installed := time.Unix(1700000000, 0)
	broken := errors.New("broken")
	ask := func(began time.Time, problem error) (bool, error) {
		return p.replaced(func(context.Context) (time.Time, error) { return began, problem })(t.Context())
	}
	if got, err := ask(installed.Add(-time.Hour), nil); got || err != nil {
		t.Errorf("without dpkg: %v, %v", got, err)
	}
	list := filepath.Join(dir, "info", switchPackageName+".list")
	if err := os.Mkdir(filepath.Dir(list), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(list, installed, installed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		began   time.Time
		problem error
		want    bool
	}{
		{"it began before", installed.Add(-time.Second), nil, true},
		{"it began with the package", installed.Add(time.Second), nil, false},
		{"it is not seen", time.Time{}, nil, false},
		{"nobody can be asked", installed.Add(-time.Second), broken, false},
	} {
		if got, err := ask(c.began, c.problem); got != c.want || !errors.Is(err, c.problem) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}
