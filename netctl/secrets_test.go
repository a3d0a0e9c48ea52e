package netctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secrets are not exported, and the user is told where they are missing.
func TestAnExportSaysWhereSecretsAreToBePut(t *testing.T) {
	url := startStore(t).startMaster(t)
	if got := run(t, url, "bgp create n1 --router-ip 50.1.1.2/24 --as 65002 --neighbor-as 500 --neighbor 50.1.1.1"); got.code != 0 {
		t.Fatal(got)
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const speaker = "kind: Bgp\nmetadata: {name: n1}\nspec: {routerip: 50.1.1.2/24, as: '65002', neighbor-as: '500', neighbor: 50.1.1.1%s}\n"
	of := func(password string) string { return strings.Replace(speaker, "%s", password, 1) }
	says := func(when, line string, code int, part string) {
		t.Helper()
		got := run(t, url, line)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, part) || strings.Contains(got.stdout+got.stderr, "hush") {
			t.Errorf("%s: netctl %s: %+v, want %d and %q", when, line, got, code, part)
		}
	}
	write(of(", password: hush-hush"))
	says("a password", "apply -f "+file, 0, "configured")
	says("nobody can tell whether it is the same", "diff -f "+file, exitDiffers, "password may differ")
	write(of(""))
	says("nothing is said of it, and it stays", "diff -f "+file, 0, "")
	says("exported", "export", 0, "password: '***'")
	write(run(t, url, "export").stdout)
	says("as exported, on the same cluster", "apply -f "+file, 0, "unchanged")
	if got := run(t, url, "bgp rm n1"); got.code != 0 {
		t.Fatal(got)
	}
	write(of(", password: '***'"))
	says("as exported, on another one", "apply -f "+file, 3, "password")
	write(of(", password: hush-hush"))
	if got := run(t, url, "diff -f "+file); got.code != exitDiffers || strings.Contains(got.stdout, "may differ") {
		t.Errorf("there is nothing to differ from: %+v", got)
	}
}

// The list of processes shows arguments to every user of the machine; standard input, to nobody.
func TestThePasswordOfASpeakerComesByStandardInput(t *testing.T) {
	const create = "bgp create n1 --router-ip 50.1.1.2/24 --as 65002 --neighbor-as 500 --neighbor 50.1.1.1 "
	url := startStore(t).startMaster(t)
	for _, c := range []struct {
		flags, input string
		code         int
		part         string
	}{
		{"--password-stdin", "", 1, "the first line of standard input is empty"},
		{"--password-stdin --password hush", "hush\n", 1, "cannot be given together"},
		{"--password-stdin", "hush-hush\nmore\n", 0, "Creating Bgp router config: n1"},
	} {
		got := runReading(t, url, words(create+c.flags), c.input)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.part) || strings.Contains(got.stdout+got.stderr, "hush-hush") {
			t.Errorf("%s with %q: %+v, want %d and %q", c.flags, c.input, got, c.code, c.part)
		}
	}
	if got := run(t, url, "bgp inspect n1"); !strings.Contains(got.stdout, `"password": "***"`) {
		t.Errorf("it has no password: %+v", got)
	}
}
