package directory_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/directory"
	"github.com/contiv/netplugin/netmaster/internal/ldaptest"
	"github.com/contiv/netplugin/utils/fault"
)

const ann = "cn=Ann,ou=people,dc=example,dc=org"

func group(name string) string { return "cn=" + name + ",ou=groups,dc=example,dc=org" }

// started is a directory with Ann in a group that is in others, in a circle.
func started(t *testing.T, startTLS bool) (*ldaptest.Directory, directory.Config) {
	d := ldaptest.Start(t, startTLS)
	d.Set(ann, ldaptest.Entry{Name: "ann", Password: "right", MemberOf: []string{group("net"), "cn=elsewhere,dc=other"}})
	d.Set(group("net"), ldaptest.Entry{MemberOf: []string{group("all")}})
	d.Set(group("all"), ldaptest.Entry{MemberOf: []string{group("net"), group("top")}})
	d.Set(group("top"), ldaptest.Entry{})
	return d, directory.Config{Server: "127.0.0.1", Port: d.Port, BaseDN: ldaptest.Base, Account: ldaptest.Account, AccountPassword: ldaptest.AccountPassword,
		StartTLS: startTLS, Authorities: d.Authorities, UserAttribute: directory.DefaultUserAttribute, TimeLimit: time.Minute}
}

func TestGroupsOfWhoHasThePassword(t *testing.T) {
	for _, startTLS := range []bool{false, true} {
		d, c := started(t, startTLS)
		groups, err := c.Groups(t.Context(), "ann", "right")
		want := []string{group("net"), "cn=elsewhere,dc=other", group("all"), group("top")}
		if err != nil || !slices.Equal(groups, want) {
			t.Errorf("StartTLS %v: %q, %v", startTLS, groups, err)
		}
		d.Set("cn=Eve,ou=people,dc=example,dc=org", ldaptest.Entry{Name: "eve"}) // no password: every bind but an empty one fails
		for name, password := range map[string]string{"ann": "wrong", "none": "right", "": "right", "eve": "x", "*": "right", "a*": "right", "ann)(cn=*": "right", "ann\x00": "right"} {
			if groups, err := c.Groups(t.Context(), name, password); !errors.Is(err, directory.ErrWrong) || groups != nil {
				t.Errorf("%q, %q: %q, %v", name, password, groups, err)
			}
		}
		if groups, err := c.Groups(t.Context(), "ann", ""); !errors.Is(err, directory.ErrWrong) || groups != nil {
			t.Errorf("an empty password: %q, %v", groups, err)
		}
		if asked := d.Asked(); strings.Contains(asked, "=*)") && !strings.Contains(asked, "objectClass=*") || strings.Contains(asked, ")(") || strings.Contains(asked, "sAMAccountName=*") {
			t.Errorf("filters: %s", asked)
		}
	}
}

// An improper answer of a directory counts as none.
func TestADirectoryThatDoesNotAnswer(t *testing.T) {
	d, good := started(t, false)
	deny := func(what, part string, change func(*directory.Config)) {
		t.Helper()
		c := good
		change(&c)
		began := time.Now()
		groups, err := c.Groups(t.Context(), "ann", "right")
		if !fault.Is(err, fault.Unavailable) || groups != nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), ldaptest.AccountPassword) {
			t.Errorf("%s: %q, %v", what, groups, err)
		}
		t.Logf("%s after %s", what, time.Since(began))
	}
	deny("another authority", "certificate", func(c *directory.Config) { c.Authorities = "" })
	deny("another name", "certificate", func(c *directory.Config) { c.IssuedTo = "other.example" })
	deny("no authority", "authorities", func(c *directory.Config) { c.Authorities = "x" })
	deny("account refused", "account", func(c *directory.Config) { c.AccountPassword = "other" })
	deny("StartTLS to TLS", "", func(c *directory.Config) { c.StartTLS, c.TimeLimit = true, time.Second })
	deny("nobody listens", "refused", func(c *directory.Config) { c.Port = 1 })
	const slow = time.Minute
	d.Slow(slow)
	began := time.Now()
	deny("slow", "", func(c *directory.Config) { c.TimeLimit = 200 * time.Millisecond })
	if took := time.Since(began); took > slow/2 {
		t.Errorf("slow takes %s", took)
	}
	d.Slow(0)
	d.Set("cn=Ann,ou=more,"+ldaptest.Base, ldaptest.Entry{Name: "ann", Password: "right"})
	deny("two of a name", "several", func(*directory.Config) {})

	_, plain := started(t, true)
	plain.StartTLS, plain.TimeLimit = false, time.Second
	if _, err := plain.Groups(t.Context(), "ann", "right"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("TLS to plain: %v", err)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	d, c := started(t, false)
	var many []string
	for i := range 1001 {
		many = append(many, group(fmt.Sprint(i)))
	}
	d.Set(ann, ldaptest.Entry{Name: "ann", Password: "right", MemberOf: many})
	if groups, err := c.Groups(t.Context(), "ann", "right"); !fault.Is(err, fault.Unavailable) || groups != nil {
		t.Errorf("%d groups, %v", len(groups), err)
	}
	for i := range 20 {
		d.Set(group(fmt.Sprint(i)), ldaptest.Entry{MemberOf: []string{group(fmt.Sprint(i + 1))}})
	}
	d.Set(ann, ldaptest.Entry{Name: "ann", Password: "right", MemberOf: []string{group("0")}})
	if groups, err := c.Groups(t.Context(), "ann", "right"); err != nil || len(groups) != 8 {
		t.Errorf("%d groups, %v", len(groups), err)
	}
}

// An answer without an end is cut off.
func TestAnEndlessAnswerEnds(t *testing.T) {
	_, c := started(t, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, endless{}) // until the client has enough
	}()
	c.Port, c.StartTLS = l.Addr().(*net.TCPAddr).Port, true
	if _, err := c.Groups(t.Context(), "ann", "right"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	<-done
}

// endless is the begin of a long text of BER, and all of it.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x04
	}
	return len(p), nil
}
