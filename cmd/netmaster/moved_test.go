package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// files returns the names of the files of a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

// The commands of docs/operations.md move a netmaster that ran as root to the paths of its unit, as an
// unprivileged user: it goes on with its data, its CAs, the keys of its secrets and its audit log.
func TestANetmasterOfRootIsMovedToItsUnitAsThePageSays(t *testing.T) {
	testkit.NeedsMachine(t)
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sh\nsystemctl stop netmaster\ninstall")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page does not say how netmaster is moved")
	}
	root := openDir(t)
	at := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	there := strings.NewReplacer("/var/lib/contiv", at("lib/contiv"), "/var/log/contiv", at("log/contiv"), "/run/contiv", at("run/contiv"),
		"-o contiv -g contiv", "-o 65534 -g 65534", "contiv:contiv", "65534:65534")

	for _, dir := range []string{"lib", "log", "run"} { // which machines have
		if err := os.Mkdir(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := closedAlone(t, "http:")
	p.endsWithTest()
	p.cmd = exec.Command(os.Args[0], slices.Concat(p.flags, []string{"--pki-dir", at("lib/contiv/pki"), "--socket", at("run/contiv/netmaster.sock"),
		"--audit-log", at("log/contiv/audit.log"), "--embedded-etcd", at("lib/contiv/etcd")})...)
	p.begin()
	leader(t, time.Minute, []*process{p})
	const provider = `{"server":"ldap.example","port":636,"base_dn":"dc=x","service_account_dn":"cn=x","service_account_password":"secret","start_tls":true}`
	(&closedOne{process: p, root: clientAt(t, at("run/contiv/netmaster.sock"))}).byRoot("PUT", "/api/v1/auth_proxy/ldap_configuration/", provider)
	testkit.Eventually(t, 20*time.Second, "it is in the audit log", func() bool {
		text, err := os.ReadFile(at("log/contiv/audit.log"))
		return err == nil && strings.Contains(string(text), "ldap_configuration")
	})
	p.kill()
	had := files(t, at("lib/contiv/pki"))
	for _, dir := range []string{"lib/contiv", "log/contiv", "run/contiv"} { // as unit files of before had it, see UMask=
		if err := os.Chmod(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}

	if out, err := exec.Command("sh", "-ec", "install"+there.Replace(block)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("install", "-d", "-o", "65534", "-m", "700", at("run/contiv/netmaster")).CombinedOutput(); err != nil { // as systemd does
		t.Fatalf("%v: %s", err, out)
	}
	if left, moved := files(t, at("lib/contiv/pki")), files(t, at("lib/contiv/netmaster/pki")); len(left) > 0 || !slices.Equal(moved, had) || !slices.Contains(moved, "keyring.json") {
		t.Errorf("of %q there are %q, and %q stay", had, moved, left)
	}
	if got := files(t, at("log/contiv/netmaster")); !slices.Equal(got, []string{"audit.log"}) {
		t.Errorf("the audit log is %q", got)
	}
	p.startUnprivileged(root, "--pki-dir", at("lib/contiv/netmaster/pki"), "--socket", at("run/contiv/netmaster/netmaster.sock"),
		"--audit-log", at("log/contiv/netmaster/audit.log"), "--embedded-etcd", at("lib/contiv/netmaster/etcd"))
	leader(t, time.Minute, []*process{p})
	c := closedOne{process: p, root: clientAt(t, at("run/contiv/netmaster/netmaster.sock"))}
	if answer := c.byRoot("GET", "/api/v1/auth_proxy/ldap_configuration/", ""); !strings.Contains(answer, "ldap.example") {
		t.Errorf("what had a secret is %s", answer)
	}
	if strings.Contains(p.log.String(), "keyring") {
		t.Error("the log complains of the keyring")
	}
}
