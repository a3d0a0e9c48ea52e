package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netctl"
	"github.com/contiv/netplugin/netmaster/api/logins"
)

// person is a user of netctl with a home directory.
type person struct {
	c      *closedOne
	home   string
	server string
}

func (c *closedOne) person(server string) *person { return &person{c, c.TempDir(), server} }

// netctl runs a command and returns its exit code and output.
func (p *person) netctl(input, command string) (code int, said string) {
	p.c.Helper()
	p.c.Setenv("NETCTL_CONFIG", filepath.Join(p.home, "config.json"))
	var out bytes.Buffer
	code = netctl.Run(p.c.Context(), append([]string{"netctl", "--netmaster", p.server}, strings.Fields(command)...), strings.NewReader(input), &out, &out)
	return code, out.String()
}

// want runs a command that ends with a code and prints a part.
func (p *person) want(code int, part, input, command string) (said string) {
	p.c.Helper()
	got, said := p.netctl(input, command)
	if got != code || !strings.Contains(said, part) {
		p.c.Fatalf("netctl %s: exit %d %q, want %d %q", command, got, said, code, part)
	}
	return said
}

// shows returns the flags for the certificate in the person's directory.
func (p *person) shows() string {
	in := func(name string) string { return filepath.Join(p.home, name) }
	return "--cert " + in("ann.crt") + " --key " + in("ann.key") + " --cacert " + in("ca.pem") + " "
}

// Netctl, netmaster and its store are real ones.
func TestUsersHaveCertificates(t *testing.T) {
	c := closed(t)
	c.user("ann")
	c.user("bob")
	ca := "--cacert " + filepath.Join(c.dir, "pki", "api-ca.crt") + " "
	ann, bob, root := c.person("https://"+c.addr), c.person("https://"+c.addr), c.person("unix://"+filepath.Join(c.dir, "netmaster.sock"))
	login := func(p *person, name string) {
		p.want(0, "Logged in", name+"\n"+goodPassword+"\n", ca+"login --password-stdin")
	}
	login(ann, "ann")
	login(bob, "bob")
	certify := ca + "user cert --dir " + ann.home
	ann.want(0, "--cert "+filepath.Join(ann.home, "ann.crt"), "", certify)
	if info, err := os.Stat(filepath.Join(ann.home, "ann.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}
	counts := func(when string) {
		t.Helper()
		ann.want(0, `"identity": "user/ann"`, "", ann.shows()+"whoami -o json")
		if said := ann.want(0, `"role": "operator"`, "", ann.shows()+"whoami -o json"); !strings.Contains(said, `"expires": "20`) {
			t.Errorf("%s: until when is not told: %s", when, said)
		}
		ann.want(0, "", "", ann.shows()+"tenant ls")
	}
	refused := func() {
		t.Helper()
		ann.want(7, "does not count any more", "", ann.shows()+"tenant ls")
	}
	counts("at first")

	ann.want(7, "log in first", "", ann.shows()+"user cert --dir "+ann.home)
	bob.want(7, "", "", ca+"user cert ann --dir "+bob.home)
	root.want(1, "name the user", "", "user cert")
	root.want(5, "no local user", "", "user cert nobody --dir "+root.home)
	counts("after what was refused")

	c.byRoot("PATCH", logins.AuthPath+"/local_users/ann/", `{"password":"`+goodPassword+`"}`)
	refused()
	login(ann, "ann")
	ann.want(0, "", "", certify)
	counts("after another password")
	ann.want(0, "Revoked", "", ca+"user cert --revoke")
	refused()
	root.want(0, "", "", "user cert ann --dir "+ann.home)
	counts("from an admin")
	const others = "authorities of another cluster"
	if err := os.WriteFile(filepath.Join(root.home, "ca.pem"), []byte(others), 0o600); err != nil {
		t.Fatal(err)
	}
	root.want(0, "--cacert "+filepath.Join(root.home, "ann.ca.pem"), "", "user cert ann --dir "+root.home)
	if left, err := os.ReadFile(filepath.Join(root.home, "ca.pem")); err != nil || string(left) != others {
		t.Errorf("the authorities of another cluster: %q, %v", left, err)
	}
	formerly := append(slices.Clone(c.ca), c.ca...) // as while the CAs are replaced
	if err := os.WriteFile(filepath.Join(root.home, "ca.pem"), formerly, 0o600); err != nil {
		t.Fatal(err)
	}
	root.want(0, "--cacert "+filepath.Join(root.home, "ca.pem"), "", "user cert ann --dir "+root.home)
	if left, err := os.ReadFile(filepath.Join(root.home, "ca.pem")); err != nil || bytes.Equal(left, formerly) {
		t.Errorf("the authorities of before: %q, %v", left, err)
	}
	c.byRoot("PATCH", logins.AuthPath+"/local_users/ann/", `{"disable":true}`)
	ann.want(7, "disabled", "", ann.shows()+"tenant ls")
	c.byRoot("DELETE", logins.AuthPath+"/local_users/ann/", "")
	c.user("ann") // another one
	refused()
}

// The oldest certificate makes room for a new one.
func TestAUserHasSixteenCertificates(t *testing.T) {
	c := closed(t)
	c.user("ann")
	root, first := c.person("unix://"+filepath.Join(c.dir, "netmaster.sock")), c.person("https://"+c.addr)
	root.want(0, "", "", "user cert ann --dir "+first.home)
	for range 15 {
		root.want(0, "", "", "user cert ann --dir "+root.home)
	}
	first.want(0, "", "", first.shows()+"tenant ls")
	root.want(0, "", "", "user cert ann --dir "+root.home)
	first.want(7, "does not count any more", "", first.shows()+"tenant ls")
	last := &person{c, root.home, first.server}
	last.want(0, "", "", last.shows()+"tenant ls")
}
