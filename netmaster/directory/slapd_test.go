package directory_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/contiv/netplugin/netmaster/directory"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// slapdConf is an OpenLDAP that notes with each entry the groups that it is in, shows everything to its account only,
// and takes no password in the clear.
const slapdConf = `
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
pidfile DIR/pid
argsfile DIR/args
TLSCertificateFile DIR/crt
TLSCertificateKeyFile DIR/key
security simple_bind=112
database mdb
suffix "dc=example,dc=org"
rootdn "cn=root,dc=example,dc=org"
rootpw of-root
directory DIR/data
overlay memberof
memberof-group-oc groupOfNames
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,dc=example,dc=org" read by * none
`

// slapd is a running OpenLDAP.
type slapd struct {
	t           *testing.T
	tls, start  int // ports
	authorities string
}

// startSlapd serves until the test ends.
func startSlapd(t *testing.T) *slapd {
	t.Helper()
	dir := t.TempDir()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	key, err := x509.MarshalPKCS8PrivateKey(certified.TLS.Certificates[0].PrivateKey)
	must(t, err)
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	must(t, os.WriteFile(filepath.Join(dir, "crt"), crt, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "conf"), []byte(strings.ReplaceAll(slapdConf, "DIR", dir)), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	s := &slapd{t: t, tls: port(t), start: port(t), authorities: string(crt)}
	cmd := exec.Command("/usr/sbin/slapd", "-d", "0", "-f", filepath.Join(dir, "conf"),
		"-h", fmt.Sprintf("ldaps://127.0.0.1:%d ldap://127.0.0.1:%d", s.tls, s.start))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	})
	testkit.Eventually(t, 20*time.Second, "slapd serves", func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tls)))
		return err == nil && conn.Close() == nil
	})
	return s
}

func port(t *testing.T) int {
	_, text, err := net.SplitHostPort(testkit.FreeAddress())
	must(t, err)
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config is that of the directory, with its account.
func (s *slapd) config(startTLS bool) directory.Config {
	c := directory.Config{Server: "127.0.0.1", Port: s.tls, BaseDN: "ou=people,dc=example,dc=org", Account: "cn=reader,dc=example,dc=org", AccountPassword: "of the account",
		StartTLS: startTLS, Authorities: s.authorities, UserAttribute: "uid", TimeLimit: time.Minute}
	if startTLS {
		c.Port = s.start
	}
	return c
}

// fill adds entries as the root of the directory.
func (s *slapd) fill(entries []*ldap.AddRequest) {
	s.t.Helper()
	conn, err := ldap.DialURL(fmt.Sprintf("ldap://127.0.0.1:%d", s.start))
	must(s.t, err)
	defer conn.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(s.authorities))
	must(s.t, conn.StartTLS(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}))
	must(s.t, conn.Bind("cn=root,dc=example,dc=org", "of-root"))
	for _, e := range entries {
		if err := conn.Add(e); err != nil {
			s.t.Fatalf("%s: %v", e.DN, err)
		}
	}
}

// entry is one to add, of pairs of an attribute and a value.
func entry(dn string, pairs ...string) *ldap.AddRequest {
	add := ldap.NewAddRequest(dn, nil)
	for i := 0; i < len(pairs); i += 2 {
		add.Attribute(pairs[i], []string{pairs[i+1]})
	}
	return add
}

func person(cn, uid, password string) *ldap.AddRequest {
	return entry("cn="+cn+",ou=people,dc=example,dc=org", "objectClass", "inetOrgPerson", "sn", cn, "uid", uid, "userPassword", password)
}

// The server is OpenLDAP's, which returns groups only as an attribute that is asked for.
func TestLongPersonsAndGroupsOfOpenLDAP(t *testing.T) {
	testkit.TakesLong(t)
	s := startSlapd(t)
	s.fill([]*ldap.AddRequest{
		entry("dc=example,dc=org", "objectClass", "domain"),
		entry("ou=people,dc=example,dc=org", "objectClass", "organizationalUnit"),
		entry("ou=groups,dc=example,dc=org", "objectClass", "organizationalUnit"),
		entry("cn=reader,dc=example,dc=org", "objectClass", "person", "sn", "reader", "userPassword", "of the account"),
		person("Ann", "ann", "right"), person("Bob", "bob", "of bob"),
		person("Twin One", "twin", "right"), person("Twin Two", "twin", "right"),
		person(`Odd \2C Name`, "odd", `(&)*\ü`),
		entry(group("net"), "objectClass", "groupOfNames", "member", ann),
		entry(group("all"), "objectClass", "groupOfNames", "member", group("net")),
		entry(group("round"), "objectClass", "groupOfNames", "member", group("all")),
		entry(group("of odd"), "objectClass", "groupOfNames", "member", `cn=Odd \2C Name,ou=people,dc=example,dc=org`),
	})
	for _, startTLS := range []bool{false, true} {
		c := s.config(startTLS)
		for name, try := range map[string]struct {
			password string
			want     []string
		}{
			"ann": {"right", []string{group("net"), group("all"), group("round")}},
			"ANN": {"right", []string{group("net"), group("all"), group("round")}}, // uid has no case
			"bob": {"of bob", nil},
			"odd": {`(&)*\ü`, []string{group("of odd")}},
		} {
			groups, err := c.Groups(t.Context(), name, try.password)
			if err != nil || !slices.Equal(groups, try.want) {
				t.Errorf("StartTLS %v: %s: %q, %v; want %q", startTLS, name, groups, err, try.want)
			}
		}
		for name, password := range map[string]string{"ann": "wrong", "bob": "right", "none": "right", "": "right", "*": "right", "a*": "right",
			"ann)(uid=*": "right", "ann\x00": "right", `ann\2a`: "right", "reader": "of the account"} {
			if groups, err := c.Groups(t.Context(), name, password); !errors.Is(err, directory.ErrWrong) || groups != nil {
				t.Errorf("StartTLS %v: %q, %q: %q, %v", startTLS, name, password, groups, err)
			}
		}
		if groups, err := c.Groups(t.Context(), "ann", ""); !errors.Is(err, directory.ErrWrong) || groups != nil {
			t.Errorf("an empty password: %q, %v", groups, err)
		}
	}
	for what, change := range map[string]func(*directory.Config){
		"several entries":   func(*directory.Config) {},
		"account":           func(c *directory.Config) { c.AccountPassword = "other" },
		"certificate":       func(c *directory.Config) { c.Authorities = "" },
		"search below ou=x": func(c *directory.Config) { c.BaseDN = "ou=x,dc=example,dc=org" },
	} {
		c := s.config(false)
		change(&c)
		if groups, err := c.Groups(t.Context(), "twin", "right"); !fault.Is(err, fault.Unavailable) || groups != nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %q, %v", what, groups, err)
		}
	}
}
