package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netctl/credentials"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// The secrets that a closed cluster receives and sends are on no wire in plain text, and in no log of its nodes,
// also where agents log all they can.
func TestLongSecretsAreOnNoWireAndInNoLog(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 2, Uplinks: 1, First: true, Secure: true})
	s := story{t, ctx, bed}
	founder, other := bed.Nodes[0], bed.Nodes[1]
	var wires []string
	var listening []*testbed.Process
	for _, n := range bed.Nodes {
		file := filepath.Join(filepath.Dir(n.LogFile("wire")), "wire.pcap")
		listener, err := n.Start("wire", "tcpdump", "-i", "any", "-U", "--immediate-mode", "-Z", "root", "-w", file)
		s.must(err)
		listening = append(listening, listener)
		wires = append(wires, file)
	}
	startDaemons(t, ctx, bed, "--log-level", "DEBUG")

	var pin string // of the cluster's CAs
	secrets := map[string]string{"password of the sessions": canary(), "password": canary()}
	for _, role := range []string{"master", "node"} {
		token, err := other.Run(ctx, "cat", "/run/contiv/token-"+role)
		s.must(err)
		secrets["join token of a "+role] = secretOf(token)
		pin = strings.TrimSpace(token[strings.LastIndex(token, ".")+1:])
	}
	s.makeWorld()
	router := birdOf(9*time.Second, secrets["password of the sessions"], 65001, 65002)
	s.run(router)
	for i, n := range bed.Nodes {
		s.netctlForNow("apply -f "+s.speaks(i, router, ""), "bgp rm "+n.Name)
	}
	s.established()
	s.user(other, pin, secrets)
	s.must(founder.Netplugin().Kill()) // its successor reads them again
	s.must(founder.StartNetplugin("--log-level", "DEBUG"))
	s.must(founder.WaitReady(ctx))
	s.established()

	const marker = "on-the-wire-seen"
	_, err := founder.Run(ctx, "ping", "-c1", "-p", hex.EncodeToString([]byte(marker)), other.MgmtIP)
	s.must(err)
	places := map[string]string{}
	for i, file := range wires { // tcpdump writes later than it hears, and what it has not written when it ends is lost
		testkit.Eventually(t, 10*time.Second, file+" has what was sent in plain", func() bool { return strings.Contains(s.contents(file), marker) })
		s.must(listening[i].Terminate())
		places[file] = s.contents(file)
	}
	for _, n := range bed.Nodes {
		for _, program := range []string{"netmaster", "netplugin"} {
			places[n.LogFile(program)] = s.contents(n.LogFile(program))
		}
		if !strings.Contains(places[n.LogFile("netplugin")], "level=debug") {
			t.Errorf("%s does not tell all it can", n.LogFile("netplugin"))
		}
		places["the switch's database at "+n.Name], err = n.Run(ctx, "ovsdb-client", "dump")
		s.must(err)
		for _, path := range []string{"/metrics", "/svcstats", "/inspect/driver", "/inspect/counters", "/inspect/drops", "/inspect/bgp", "/inspect/nameserver", "/inspect/tunnels"} {
			told, err := agentTells(ctx, n, path)
			s.must(err)
			if told.status != http.StatusOK {
				t.Errorf("%s of %s: %d %s", path, n.Name, told.status, told.body)
			}
			places[path+" of "+n.Name] = told.body
		}
	}
	for what, secret := range secrets {
		if len(secret) < 16 {
			t.Errorf("%s is %q", what, secret)
		}
		for place, text := range places {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, place)
			}
		}
	}
}

func canary() string { return "canary" + rand.Text()[:20] }

// secretOf returns the secret part of a token.
func secretOf(token string) string {
	parts := strings.FieldsFunc(strings.TrimSpace(token), func(r rune) bool { return r == '_' || r == '.' })
	if len(parts) < 3 {
		return token // too short: the test reports it
	}
	return parts[2]
}

// user creates a user with the password, logs in as that user from another machine, and sends requests there, with
// the session and with a program's token.
func (s story) user(at *testbed.Node, pin string, secrets map[string]string) {
	s.Helper()
	const asks = `
printf '%s\n' "$2" | "$1" user create --password-stdin ann
"$1" role grant ann admin
export NETMASTER=$3 NETCTL_CONFIG=$4
printf '%s\n' "$2" | "$1" login -u ann --password-stdin --pin "$5"
"$1" api-token create --role viewer -q ci > "$6"
"$1" whoami
NETCTL_TOKEN=$(cat "$6") "$1" tenant ls`
	const session, token = "/run/contiv/ann.json", "/run/contiv/ci"
	_, err := at.Run(s.ctx, "sh", "-ec", asks, "sh", at.Tool("netctl"), secrets["password"], "https://"+s.bed.Nodes[0].MgmtIP+":9999", session, pin, token)
	s.must(err)
	out, err := at.Run(s.ctx, "cat", token)
	s.must(err)
	secrets["token of a program"] = secretOf(out)
	out, err = at.Run(s.ctx, "cat", session)
	s.must(err)
	var kept credentials.Store
	s.must(json.Unmarshal([]byte(out), &kept))
	for server, known := range kept.Servers {
		secrets["session at "+server] = secretOf(known.Token)
	}
}

func (s story) contents(file string) string {
	s.Helper()
	text, err := os.ReadFile(file)
	s.must(err)
	return string(text)
}
