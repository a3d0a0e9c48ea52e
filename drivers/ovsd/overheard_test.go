package ovsd_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/domains"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// answers answers any query at UDP port 53 of a pod with an address.
const answers = `
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 53))
print("ready", flush=True)
while True:
    q, who = s.recvfrom(512)
    s.sendto(q[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + q[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\x05\0\4" + socket.inet_aton(sys.argv[1]), who)
`

// asks queries a name at an address a number of times. It prints when it has to repeat a query.
const asks = `
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
def ask():
    for left in reversed(range(30)):
        s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\4shop\7example\0\0\1\0\1", (sys.argv[1], 53))
        try: return s.recv(512)
        except socket.timeout:
            if not left: raise
            print("again")
for _ in range(int(sys.argv[2])): print(socket.inet_ntoa(ask()[-4:]))
`

// floods queries an address for one name, over and over, until its input ends, and reports when it has had more
// answers than are copied to the agent at once.
const floods = `
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
for i in range(30000):
    if i == 20: print("ready", flush=True)
    if select.select([sys.stdin], [], [], 0)[0]: break
    for _ in range(8): s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\5flood\7example\0\0\1\0\1", (sys.argv[1], 53))
    try:
        for _ in range(8): s.recv(512)
    except OSError: pass
`

// heard are the answers that the switch has sent.
type heard chan domains.Answer

func (h heard) HearAnswer(a domains.Answer) { h <- a }
func (h heard) ForgetAnswers(time.Time)     {}

// tally counts the answers that the switch has sent.
type tally struct {
	mu    sync.Mutex
	names map[string]int
}

func (c *tally) HearAnswer(a domains.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names[a.Name]++
}

func (c *tally) ForgetAnswers(time.Time) {}

func (c *tally) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[name]
}

// nameService returns a service whose answers are copied to the agent.
func nameService(server *pod) pipeline.Service {
	return pipeline.Service{ID: "names", VRF: network.VRF, Tag: network.Tag, Overheard: true, Ports: []pipeline.ServicePort{{
		Address: netip.MustParseAddr("10.1.0.200"), From: pipeline.FromPods, Protocol: openflow.ProtoUDP, Port: 53,
		Serving: []netip.AddrPort{netip.AddrPortFrom(server.endpoint.IPv4, 53)},
	}}}.Numbered(func(uint32) bool { return false })
}

// A pod that may reach only the addresses of a name queries it; the agent receives the answer, and adds the
// address to the rule. Answers of other endpoints than the name servers are not copied.
func TestAnswersOfNameServersAreOverheard(t *testing.T) {
	n := newNode(t)
	r := n.start()
	var pods []*pod
	for i := range byte(4) {
		p := n.newPod(r, i+1)
		p.endpoint.Class, p.endpoint.Tiers = uint16(i+1), pipeline.Tracked
		pods = append(pods, p)
	}
	client, server, shop, liar := pods[0], pods[1], pods[2], pods[3]
	client.endpoint.Tiers |= pipeline.JudgesOut
	names := nameService(server)
	rule := func(id string, number uint32, rank uint16, verdict pipeline.Verdict) pipeline.TierRule {
		return pipeline.TierRule{ID: id, Number: number, Rank: rank, Verdict: verdict, Tier: pipeline.FirstTier, Out: true, Subjects: []uint16{1}}
	}
	asking, named, deny := rule("ask", 1, 0, pipeline.Accept), rule("named", 2, 1, pipeline.Accept), rule("deny", 3, 2, pipeline.Deny)
	asking.Peers, deny.AnyPeer = []uint16{2, 4}, true
	change := everything(pods...)
	change.Set = append(change.Set, names, asking, named, deny, pipeline.Epoch{Number: 1})

	told, ended := make(heard, 8), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- domains.Serve(ctx, r, told) }()
	t.Cleanup(func() { stop(); <-ended })
	r.give(change)
	server.start(answers, shop.endpoint.IPv4.String())
	liar.start(answers, liar.endpoint.IPv4.String())
	shop.start(echo)

	looksUp := func(at netip.Addr, want *pod) {
		t.Helper()
		got := client.exec(testkit.Python, "-ISc", asks, at.String(), "1")
		if answer := strings.TrimSpace(strings.ReplaceAll(got, "again", "")); answer != want.endpoint.IPv4.String() {
			t.Fatalf("asked %s: %s", at, got)
		}
	}
	connects := func() bool {
		return client.command("timeout", "1", "bash", "-c", ": </dev/tcp/"+shop.endpoint.IPv4.String()+"/8080").Run() == nil
	}
	looksUp(liar.endpoint.IPv4, liar) // first, so that it would be received first
	if connects() {
		t.Error("reached before its name is known")
	}
	looksUp(names.Ports[0].Address, shop)
	looksUp(server.endpoint.IPv4, shop) // the server's own address works, too
	for range 2 {
		select {
		case a := <-told:
			if a.Name != "shop.example" || len(a.Addresses) != 1 || a.Addresses[0] != shop.endpoint.IPv4 || a.TTL != 5*time.Second {
				t.Errorf("heard %+v", a)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing is heard")
		}
	}
	named.Nets = []netip.Prefix{netip.PrefixFrom(shop.endpoint.IPv4, 32)}
	r.give(drivers.Change{Set: []pipeline.Object{named}})
	eventually(t, "what the name stands for is reached", connects)
}

// The answers to a pod's queries are copied, however many queries another pod sends.
func TestAPodThatFloodsTheNameServiceLeavesOthersTheirNames(t *testing.T) {
	n := newNode(t)
	r := n.start()
	client, server, flooding := n.newPod(r, 1), n.newPod(r, 2), n.newPod(r, 3)
	for i, p := range []*pod{client, server, flooding} {
		p.endpoint.Class, p.endpoint.Tiers = uint16(i+1), pipeline.Tracked
	}
	client.endpoint.Tiers |= pipeline.JudgesOut
	flooding.endpoint.Tiers |= pipeline.JudgesOut
	names := nameService(server)
	change := everything(client, server, flooding)
	change.Set = append(change.Set, names, pipeline.Epoch{Number: 1})
	told := &tally{names: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- domains.Serve(ctx, r, told) }()
	t.Cleanup(func() { stop(); <-ended })
	r.give(change)
	server.start(answers, server.endpoint.IPv4.String())

	at := names.Ports[0].Address.String()
	calm := flooding.start(floods, at)
	const asked = 10
	most := asked + strings.Count(client.exec(testkit.Python, "-ISc", asks, at, fmt.Sprint(asked)), "again") // some queries may be answered twice
	calm()
	eventually(t, "all that the client was answered is heard", func() bool { return told.of("shop.example") >= asked })
	if got := told.of("shop.example"); got > most {
		t.Errorf("%d answers are heard, and %d questions were asked", got, most)
	}
	if told.of("flood.example") == 0 {
		t.Error("nothing of the flood is heard")
	}
}
