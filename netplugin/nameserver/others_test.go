package nameserver

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// others are other name servers, with the command that starts each: DIR is a folder for its files, and PORT its
// port of 127.0.0.1.
var others = map[string]struct {
	files   map[string]string
	command string
}{
	"dnsmasq": {map[string]string{"hosts": hostsOf("192.0.2.1 web.example.test", "2001:db8::1 web.example.test")},
		"dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --addn-hosts=DIR/hosts --port=PORT --listen-address=127.0.0.1 --bind-interfaces " +
			"--user=root --pid-file= --local=/example.test/ --local-ttl=300 --cname=www.example.test,web.example.test --txt-record=text.example.test," + strings.Join(texts(), ",")},
	"unbound": {map[string]string{"conf": `
server:
  directory: DIR
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  interface: 127.0.0.1@PORT
  local-zone: "example.test." static
` + localData("example.test. 900 IN SOA ns.example.test. x.example.test. 1 2 3 4 60", "web.example.test. 300 IN A 192.0.2.1", "web.example.test. 300 IN AAAA 2001:db8::1",
		"www.example.test. 300 IN CNAME web.example.test.", "text.example.test. 300 IN TXT "+strings.Join(texts(), " ")) + `
  local-data-ptr: "192.0.2.1 web.example.test"
`}, "unbound -d -c DIR/conf"},
	"named": {map[string]string{"conf": `
options { directory "DIR"; pid-file none; session-keyfile none; listen-on port PORT { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; };
controls { };
zone "example.test" { type primary; file "zone"; };
zone "2.0.192.in-addr.arpa" { type primary; file "reverse"; };
`, "zone": `$TTL 300
@ IN SOA ns x 1 2 3 4 60
@ IN NS ns
ns IN A 192.0.2.53
web IN A 192.0.2.1
web IN AAAA 2001:db8::1
www IN CNAME web
text IN TXT ` + strings.Join(texts(), " ") + "\n" + records("many 300 IN A"),
		"reverse": "$TTL 300\n@ IN SOA ns.example.test. x.example.test. 1 2 3 4 60\n@ IN NS ns.example.test.\n1 IN PTR web.example.test.\n"},
		"named -g -c DIR/conf -n 1"},
}

// texts returns more than a datagram of 1,232 bytes holds.
func texts() (all []string) {
	for i := range 12 {
		all = append(all, fmt.Sprintf("%d%s", i, strings.Repeat("x", 200)))
	}
	return all
}

// addresses returns as many.
func addresses() (all []string) {
	for i := range 100 {
		all = append(all, netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}).String())
	}
	return all
}

func hostsOf(lines ...string) string {
	for _, a := range addresses()[1:] { // the reverse of the first is one name
		lines = append(lines, a+" many.example.test")
	}
	return strings.Join(lines, "\n") + "\n"
}

func records(before string) (text string) {
	for _, a := range addresses() {
		text += before + " " + a + "\n"
	}
	return text
}

func localData(all ...string) (text string) {
	for _, a := range addresses() {
		all = append(all, "many.example.test. 300 IN A "+a)
	}
	for _, line := range all {
		text += "  local-data: '" + line + "'\n"
	}
	return text
}

// startOther starts another name server, which ends with the test.
func startOther(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	address := netip.MustParseAddrPort(testkit.FreeAddress())
	dir := t.TempDir()
	here := strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(address.Port()))
	for file, text := range others[name].files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(here.Replace(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	words := strings.Fields(here.Replace(others[name].command))
	cmd := exec.Command("/usr/sbin/"+words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s: %s", name, said.String())
		}
	})
	testkit.Eventually(t, 20*time.Second, name+" serves", func() bool {
		_, _, err := new(dns.Client).Exchange(question("web.example.test.", dns.TypeA), address.String())
		return err == nil
	})
	return address
}

// gist returns the content of an answer without times, order, and the case of names, for which some servers use
// the question's spelling and others the record's.
func gist(m *dns.Msg) string {
	all := []string{}
	for _, r := range m.Answer {
		r.Header().Ttl = 0
		r.Header().Name = fold(r.Header().Name)
		all = append(all, strings.Join(strings.Fields(r.String()), " "))
	}
	slices.Sort(all)
	return dns.RcodeToString[m.Rcode] + " " + strings.Join(all, ", ")
}

// Pods get the answers of external servers, of any make, by UDP and TCP, the first time and from the cache, of any
// length.
func TestLongServersOfOthersAreAskedForPods(t *testing.T) {
	testkit.TakesLong(t)
	for name := range others {
		t.Run(name, func(t *testing.T) {
			other := startOther(t, name)
			_, ours := start(t, exampleZones(t), NewForwarder(Fixed(other)), inBlue)
			for _, q := range []struct {
				name string
				kind uint16
				says string // a part of it
			}{
				{"web.example.test.", dns.TypeA, "192.0.2.1"}, {"WEB.Example.Test.", dns.TypeAAAA, "2001:db8::1"}, {"web.example.test.", dns.TypeTXT, "NOERROR"},
				{"www.example.test.", dns.TypeA, "CNAME"}, {"text.example.test.", dns.TypeTXT, "11xxx"}, {"many.example.test.", dns.TypeA, "192.0.2.99"},
				{"none.example.test.", dns.TypeA, "NXDOMAIN"}, {"1.2.0.192.in-addr.arpa.", dns.TypePTR, "PTR web.example.test."},
			} {
				want := gist(exchangeWith(t, "tcp", other.String(), question(q.name, q.kind).SetEdns0(4096, false)))
				if !strings.Contains(want, q.says) {
					t.Fatalf("%s itself says of %s: %s, want %s", name, q.name, want, q.says)
				}
				for _, round := range []string{"first", "again"} {
					for _, way := range []string{"udp", "udp with EDNS", "tcp"} {
						m, network := question(q.name, q.kind), strings.Fields(way)[0]
						if way != network {
							m.SetEdns0(1232, false)
						}
						reply := exchangeWith(t, network, ours, m)
						if reply.Truncated && network == "udp" {
							reply.Compress = true // as it came
							if reply.Len() > 1232 {
								t.Errorf("%s %s: cut at %d bytes", q.name, way, reply.Len())
							}
							reply = exchangeWith(t, "tcp", ours, m)
						}
						if len(reply.Answer) > 0 && reply.Answer[0].Header().Name != q.name {
							t.Errorf("%s %s %s: about %s", q.name, round, way, reply.Answer[0].Header().Name)
						}
						if got := gist(reply); got != want || reply.Truncated {
							t.Errorf("%s %s %s: %.300s, want %.300s", q.name, round, way, got, want)
						}
					}
				}
			}
		})
	}
}
