package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/daemonflags"
)

// TestMain lets the test program be the netmaster of its own tests, and the client that guesses passwords.
func TestMain(m *testing.M) {
	if isWorker(os.Args) { // of a netmaster of these tests
		os.Exit(work(os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Getenv("BE_GUESSER") != "" {
		if err := beGuesser(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("BE_NETMASTER") == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, append([]string{"netmaster"}, os.Args[1:]...), os.Stdout, os.Stderr))
}

func TestInvalidConfigurationIsReportedCompletely(t *testing.T) {
	t.Setenv("CONTIV_NETMASTER_LEADER_TTL", "1s")
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"netmaster", "--mode", "mesos", "--netmode", "vxlan", "--fwdmode", "bridge", "--infra", "x",
		"--external-address", "0.0.0.0:9999", "--internal-address", "0.0.0.0:9999", "--embedded-etcd", "/nonexistent", "--embedded-etcd-peers", "m1",
		"--node-grace", "1s", "extra"}, &out, &errOut)
	const want = `netmaster: invalid configuration:
--mode "mesos": want docker, kubernetes, swarm-mode or cni
--internal-address "0.0.0.0:9999": want an IP address others can reach
"extra": netmaster takes no arguments beside flags
--infra "x": want default or aci
--leader-ttl 1s: must be at least 2s
--node-grace 1s: must be at least 1m
--embedded-etcd-peers "m1": want name=URL
`
	if code != 22 || errOut.String() != want {
		t.Errorf("exit %d:\n%s", code, errOut.String())
	}
}

func TestUnknownFlagsAreInvalidConfiguration(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"netmaster", "--frobnicate"}, &out, &errOut); code != 22 || !strings.Contains(errOut.String(), "frobnicate") {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
}

func TestVersionIsThreeLines(t *testing.T) {
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"netmaster", "--version"}, &out, &errOut)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if code != 0 || len(lines) != 3 || !strings.HasPrefix(lines[0], "Version: ") {
		t.Errorf("exit %d: %q", code, out.String())
	}
}

// process is a netmaster in a process of its own.
type process struct {
	*testing.T
	flags []string
	cmd   *exec.Cmd
	addr  string
	store string // client URL of its member
	log   testkit.Text
}

// cluster starts netmasters, each with a member of one embedded store.
func cluster(t *testing.T, n int, flags ...string) []*process {
	t.Helper()
	var peers, peerURLs []string
	for i := range n {
		peerURLs = append(peerURLs, testkit.FreeURL())
		peers = append(peers, fmt.Sprintf("m%d=%s", i, peerURLs[i]))
	}
	var all []*process
	for i := range n {
		p := &process{T: t, addr: testkit.FreeAddress(), store: testkit.FreeURL()}
		p.flags = append([]string{"--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing",
			"--external-address", p.addr, "--internal-address", p.addr,
			"--insecure", "--embedded-etcd", t.TempDir(), "--embedded-etcd-name", fmt.Sprintf("m%d", i), "--embedded-etcd-client-url", p.store,
			"--embedded-etcd-peer-url", peerURLs[i], "--embedded-etcd-peers", strings.Join(peers, ","), "--embedded-etcd-unsafe-no-fsync"}, flags...)
		p.start()
		p.endsWithTest()
		all = append(all, p)
	}
	return all
}

func (p *process) start() {
	p.Helper()
	p.cmd = exec.Command(os.Args[0], p.flags...)
	p.begin()
}

// begin runs the command.
func (p *process) begin() {
	p.Helper()
	p.cmd.Env = append(os.Environ(), "BE_NETMASTER=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
}

// endsWithTest kills the process, unless that has been done, and shows its log if the test has failed.
func (p *process) endsWithTest() {
	p.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill()
		}
		if p.Failed() {
			p.Logf("log of %s:\n%s", p.addr, p.log.String())
		}
	})
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // returns that it was killed
}

func (p *process) get(path string) (int, string) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + p.addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func (p *process) post(path, body string) (int, string) {
	resp, err := http.Post("http://"+p.addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, strings.TrimSpace(string(answer))
}

// leader waits until one of the processes reports that it leads.
func leader(t *testing.T, within time.Duration, all []*process) int {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for i, p := range all {
			if code, answer := p.get("/readyz"); code == http.StatusOK && answer == "leader" {
				return i
			}
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("no leader within %s", within)
		}
	}
}

// A lease that is not revoked would have to expire.
func TestSIGTERMHandsOverAndExitsZero(t *testing.T) {
	all := cluster(t, 3, "--leader-ttl", "2m")
	first := leader(t, time.Minute, all)
	rest := append(append([]*process{}, all[:first]...), all[first+1:]...)
	began := time.Now()
	if err := all[first].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	leader(t, time.Minute, rest)
	t.Logf("a successor leads after %s", time.Since(began).Round(time.Millisecond))
	if err := all[first].cmd.Wait(); err != nil {
		t.Errorf("netmaster ended with %v", err)
	}
	for _, p := range rest {
		serves(t, p)
	}
}

func TestKilledLeaderIsReplaced(t *testing.T) {
	leaderKilled(t, func(time.Duration) time.Duration { return time.Minute }) // beside other tests
}

// The promise of the flag, if the machine has free processors for a successor.
func TestLongKilledLeaderIsReplacedWithinItsTTLAndASecond(t *testing.T) {
	testkit.TakesLong(t)
	leaderKilled(t, func(ttl time.Duration) time.Duration { return ttl + time.Second })
}

// leaderKilled kills the leader of three and wants another within a time.
func leaderKilled(t *testing.T, within func(ttl time.Duration) time.Duration) {
	const ttl = 9 * time.Second // the shortest for which the flag promises its time
	all := cluster(t, 3, "--leader-ttl", ttl.String())
	first := leader(t, time.Minute, all)
	rest := append(append([]*process{}, all[:first]...), all[first+1:]...)
	began := time.Now()
	if err := all[first].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = all[first].cmd.Wait() // returns that it was killed
	leader(t, within(ttl), rest)
	t.Logf("a successor leads after %s", time.Since(began).Round(time.Millisecond))
	serves(t, rest[0])
}

// serves waits until a process answers itself or through the leader.
func serves(t *testing.T, p *process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := testkit.Poll(ctx, func() error {
		if code, answer := p.get("/api/v1/tenants/default/"); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, answer)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Clients of a plain etcd own the cluster, whatever netmasters require of other clients.
func TestANewClusterIsClosedIfItsStoreIs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*options)
		want   mastercfg.SecurityMode
	}{
		"a plain etcd":                    {func(*options) {}, mastercfg.SecurityOpen},
		"a plain etcd, but secure":        {func(o *options) { o.security.secure = true }, mastercfg.SecurityEnforced}, // on loopback, see exposed_test.go
		"an etcd that asks who it is":     {func(o *options) { o.common.Store.CertFile = "c.pem" }, mastercfg.SecurityEnforced},
		"an embedded store":               {func(o *options) { o.embeddedDir = "/x" }, mastercfg.SecurityEnforced},
		"an embedded store, but insecure": {func(o *options) { o.embeddedDir, o.security.insecure = "/x", true }, mastercfg.SecurityOpen},
	} {
		o := &options{security: securityOptions{dir: "/x", leafLife: pki.LeafLife}}
		c.change(o)
		if s, violations := o.protection(); s.Founding != c.want || len(violations) > 0 || s.Socket != defaultSocket || !s.SocketOptional {
			t.Errorf("%s: %+v, %v", name, s, violations)
		}
	}
	o := &options{security: securityOptions{secure: true, insecure: true, plainLoopback: "king", leafLife: pki.LeafLife}}
	if _, violations := o.protection(); len(violations) != 2 { // both of them, no such role
		t.Errorf("%v", violations)
	}
}

// A member with TLS enters its cluster by the netmasters of the others.
func TestAMemberWithTLSNamesThoseItEntersBy(t *testing.T) {
	three := "m1=https://10.1.1.1:2380,m2=https://[2001:db8::2]:2380,m3=https://10.1.1.3:2380"
	for name, c := range map[string]struct {
		peers, peer, client, token, join string
		enters                           []string
		founder                          bool
		peerURL, refused                 string
	}{
		"the first":     {peers: three, client: "https://127.0.0.1:2379", enters: []string{"[2001:db8::2]:9998", "10.1.1.3:9998"}, founder: true, peerURL: "https://10.1.1.1:2380"},
		"by its token":  {peers: three, client: "https://127.0.0.1:2379", token: "/t", join: "10.1.1.9:9999", enters: []string{"10.1.1.9:9999"}, founder: true, peerURL: "https://10.1.1.1:2380"},
		"alone":         {client: "https://127.0.0.1:2379", peerURL: "https://127.0.0.1:2380"},
		"alone, plain":  {client: "http://127.0.0.1:2379", peerURL: "http://127.0.0.1:2380"},
		"half plain":    {peers: "m1=https://10.1.1.1:2380,m2=http://10.1.1.2:2380", client: "https://127.0.0.1:2379", refused: "either https or http"},
		"plain peers":   {peers: "m1=http://10.1.1.1:2380", client: "https://127.0.0.1:2379", refused: "--embedded-etcd-client-url"},
		"own is plain":  {peers: three, peer: "http://10.1.1.1:2380", client: "http://127.0.0.1:2379", refused: "either https or http"},
		"nobody to ask": {client: "https://127.0.0.1:2379", token: "/t", refused: "--join or --embedded-etcd-peers"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{embeddedDir: "/x", embeddedName: "m1", embeddedClientURL: c.client, embeddedPeerURL: c.peer, embeddedPeers: c.peers, internal: "10.1.1.1:9998"}
			s := daemon.Security{TokenFile: c.token, Join: daemonflags.List(c.join)}
			member, violations := o.member()
			violations = append(violations, o.enters(member, &s)...)
			if c.refused != "" {
				if err := errors.Join(violations...); err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v; want ...%s...", err, c.refused)
				}
				return
			}
			if len(violations) > 0 || member.PeerURL != c.peerURL || s.Founder != c.founder || !slices.Equal(s.Join, c.enters) {
				t.Errorf("%v, %s, %v by %q", violations, member.PeerURL, s.Founder, s.Join)
			}
		})
	}
}

// verify-audit reports whether the audit log is complete; it starts no netmaster.
func TestTheAuditLogIsVerified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	log.Add(audit.Entry{Principal: "user/ann"})
	log.Add(audit.Entry{Principal: "user/bob"})
	ended, end := context.WithCancel(t.Context())
	end()
	log.Run(ended)
	verify := func(args ...string) (code int, said string) {
		var out, errOut bytes.Buffer
		code = run(t.Context(), append([]string{"netmaster", "verify-audit"}, args...), &out, &errOut)
		return code, out.String() + errOut.String()
	}
	if code, said := verify(path); code != 0 || !strings.HasPrefix(said, "2 lines follow each other; the hash of the last one is ") {
		t.Errorf("%d: %s", code, said)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("ann"), []byte("eve"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := verify(path); code != 1 || !strings.Contains(said, "audit.log, line 2: it does not follow") {
		t.Errorf("a line was changed: %d: %s", code, said)
	}
	if code, said := verify(path, path); code != 22 {
		t.Errorf("two files: %d: %s", code, said)
	}
}
