package pipeline

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// serve greets every client of a TCP port of the pod.
func (p *pod) serve(port uint16) {
	p.t.Helper()
	var listener net.Listener
	err := p.inside(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		p.t.Fatalf("%s listens at %d: %v", p.ID, port, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			fmt.Fprintln(conn, p.ID)
			_ = conn.Close()
		}
	}()
	p.t.Cleanup(func() { _ = listener.Close(); <-done })
}

// never is how long a test waits where nothing must arrive. It is less than a second, after which the kernel
// repeats a lost handshake.
const never = 400 * time.Millisecond

// connects reports whether a TCP connection to the port gets its greeting; it waits longer if that is expected.
func (p *pod) connects(to netip.Addr, port uint16, expected bool) bool {
	patience := never
	if expected {
		patience = soon
	}
	err := p.inside(func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, port).String(), patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(soon)); err != nil {
			return err
		}
		_, err = bufio.NewReader(conn).ReadString('\n')
		return err
	})
	return err == nil
}

// tcpRule is a rule from group front to group store.
func tcpRule(id string, priority int, port uint16, flags string, allow bool) Rule {
	return rule(id, priority, func(r *Rule) {
		r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort, r.TCPFlags, r.Allow = front, store, 6, port, flags, allow
	})
}

func TestRulesDecideWhoMayConnectWhere(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	const sql, ssh = 5432, 22
	for _, server := range []Endpoint{web1, db1, db2} {
		c.pod(server).serve(sql)
		c.pod(server).serve(ssh)
	}
	denyNew := tcpRule("deny-new", 1, 0, "syn,!ack", false)
	allowSQL := tcpRule("allow-sql", 10, sql, "", true)
	toDB2 := rule("deny-host", 20, func(r *Rule) { r.Dst, r.Protocol = inet.Host(db2.IPv4), 6 })

	type attempt struct {
		from, to Endpoint
		port     uint16
		want     bool // for both IP families
	}
	for _, scene := range []struct {
		name  string
		rules []Object
		tries []attempt
	}{
		{"without rules everybody may", nil, []attempt{
			{web1, db2, sql, true}, {web1, db2, ssh, true}, {web2, db2, ssh, true}}},
		{"only the allowed port, on the same node and on another", []Object{denyNew, allowSQL}, []attempt{
			{web1, db2, sql, true}, {web1, db2, ssh, false},
			{web1, db1, sql, true}, {web1, db1, ssh, false},
			{web2, db2, sql, true}, {web2, db2, ssh, false}}},
		{"a rule is directional: store may still connect to front", []Object{denyNew}, []attempt{
			{db2, web1, ssh, true}, {web1, db2, ssh, false}}},
		{"a rule is between groups: inside store nothing changes", []Object{denyNew}, []attempt{
			{db1, db2, ssh, true}}},
		{"a group may be cut off from itself, though its network switches", []Object{
			rule("inside", 1, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.TCPFlags = front, front, 6, "syn,!ack" }),
		}, []attempt{{web2, web1, ssh, false}, {web1, db2, ssh, true}}},
		{"the higher priority wins", []Object{
			tcpRule("allow-low", 1, ssh, "", true), tcpRule("deny-high", 2, ssh, "", false)}, []attempt{
			{web1, db2, ssh, false}, {web1, db2, sql, true}}},
		{"removed rules leave no trace", nil, []attempt{{web1, db2, ssh, true}}},
	} {
		t.Run(scene.name, func(t *testing.T) {
			c.program(scene.rules...)
			var all sync.WaitGroup
			for _, try := range scene.tries {
				for _, a := range []netip.Addr{try.to.IPv4, try.to.IPv6} {
					all.Go(func() {
						if got := c.pod(try.from).connects(a, try.port, try.want); got != try.want {
							t.Errorf("%s connects to %s at %s: %v, want %v", try.from.ID, try.to.ID, netip.AddrPortFrom(a, try.port), got, try.want)
						}
					})
				}
			}
			all.Wait()
		})
	}

	t.Run("a rule with an IPv4 address leaves IPv6 alone", func(t *testing.T) {
		c.program(toDB2)
		if c.pod(web1).connects(db2.IPv4, ssh, false) {
			t.Error("IPv4 is not denied")
		}
		if !c.pod(web1).connects(db2.IPv6, ssh, true) {
			t.Error("IPv6 is denied")
		}
	})
	t.Run("rules with IPv6 prefixes stand beside those of IPv4 and of groups", func(t *testing.T) {
		to := func(name string, priority int, dst string, allow bool) Rule {
			return rule(name, priority, func(r *Rule) {
				r.Protocol, r.DstPort, r.Dst, r.Allow = 6, ssh, netip.MustParsePrefix(dst), allow
			})
		}
		for _, scene := range []struct {
			name           string
			rules          []Object
			want4, want6   bool // web1 to db2
			other4, other6 bool // web1 to db1
		}{
			{"a host is denied", []Object{to("h", 1, db2.IPv6.String()+"/128", false)}, true, false, true, true},
			{"a network is allowed, its group is not", []Object{denyNew, to("n", 5, dbBlue.Subnet6.String(), true)}, false, true, false, true},
			{"a host is an exception in its network", []Object{to("n", 1, dbBlue.Subnet6.String(), false), to("h", 2, db2.IPv6.String()+"/128", true)}, true, true, true, false},
			{"a network of both families, in one rule", []Object{rule("n", 1, func(r *Rule) {
				r.Protocol, r.DstPort, r.Dst, r.Dst6 = 6, ssh, dbBlue.Subnet, dbBlue.Subnet6
			})}, false, false, false, false},
			{"of equal priorities the denial wins, whatever came first", []Object{
				to("a", 5, dbBlue.Subnet.String(), true), to("d", 5, db2.IPv4.String()+"/32", false),
				to("d6", 5, dbBlue.Subnet6.String(), false), to("a6", 5, db2.IPv6.String()+"/128", true)}, false, false, true, false},
			{"both families, one rule each", []Object{to("6", 1, db2.IPv6.String()+"/128", false), to("4", 1, db1.IPv4.String()+"/32", false)}, true, false, false, true},
		} {
			for i, n := range c.nodes {
				if i%2 == 1 {
					slices.Reverse(scene.rules)
				}
				c.programNode(n, scene.rules...)
			}
			var all sync.WaitGroup
			for a, want := range map[netip.Addr]bool{db2.IPv4: scene.want4, db2.IPv6: scene.want6, db1.IPv4: scene.other4, db1.IPv6: scene.other6} {
				all.Go(func() {
					if got := c.pod(web1).connects(a, ssh, want); got != want {
						t.Errorf("%s: web1 connects to %s: %v, want %v", scene.name, a, got, want)
					}
				})
			}
			all.Wait()
		}
	})
	for i, where := range []string{"sending", "receiving"} {
		t.Run("the "+where+" node alone enforces", func(t *testing.T) {
			c.program()
			c.programNode(c.nodes[i], denyNew) // web1's node is the first, db2's the second
			for _, a := range []netip.Addr{db2.IPv4, db2.IPv6} {
				if c.pod(web1).connects(a, ssh, false) {
					t.Errorf("web1 connects to %s", a)
				}
			}
		})
	}
}

func TestADenialComesBeforeAPermissionOfEqualPriorityAndAfterTheNextPriority(t *testing.T) {
	p := node1()
	ranks := func(r Rule) []uint16 {
		var all []uint16
		for _, f := range flowsOf(p, r, 0) {
			all = append(all, f.Priority)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	var list []uint16
	for priority := range 3 {
		list = append(list, slices.Concat(
			ranks(tcpRule("a", priority+1, 80, "", true)), ranks(tcpRule("d", priority+1, 0, "", false)))...)
	}
	if len(list) != 6 || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != 6 {
		t.Errorf("priorities of allow 1, deny 1, allow 2, ...: %d", list)
	}
}

func TestOfTwoRulesThatSayTheSameOneIsPreferred(t *testing.T) {
	p := node1()
	one, twin := flowsOf(p, tcpRule("b", 5, 80, "", false), 0), flowsOf(p, tcpRule("c", 5, 80, "", false), 0)
	for i := range one {
		if one[i].MatchKey() != twin[i].MatchKey() || Preferred(one[i], twin[i]) == Preferred(twin[i], one[i]) {
			t.Errorf("no order between\n%s\n%s", one[i], twin[i])
		}
	}
}

// The cost of a rule does not depend on the numbers of group members and of addresses in networks.
func TestFiveThousandRulesBetweenGroupsOfTwoHundredMembersAreFiveThousandFlowsForEachFamily(t *testing.T) {
	const rules, members = 5000, 200
	p, places := node1(), map[string]bool{}
	add := func(objects ...Object) {
		for _, o := range objects {
			for _, f := range flowsOf(p, o, 0) {
				places[f.MatchKey()] = true
			}
		}
	}
	for i := range members {
		add(endpoint(fmt.Sprint("from", i), webBlue, byte(i), front), endpoint(fmt.Sprint("to", i), dbBlue, byte(i), store))
	}
	endpoints := len(places)
	for i := range rules {
		r := tcpRule(fmt.Sprint("r", i), 1+i%MaxPriority, uint16(1+i), "", false)
		r.Src, r.Src6 = webBlue.Subnet, webBlue.Subnet6
		add(r)
	}
	if got := len(places) - endpoints; got != 2*rules {
		t.Errorf("%d rules between groups of %d members are %d flows", rules, members, got)
	}
	if endpoints > 2*members*6 { // three for each family
		t.Errorf("%d endpoints are %d flows", 2*members, endpoints)
	}
}

// Clauses of several rules with one match share a flow, whichever was first.
func TestClausesOfConjunctionsAreUnited(t *testing.T) {
	clause := func(cookie uint64, actions ...openflow.Action) openflow.Flow {
		return openflow.Flow{Table: 5, Priority: 7, Cookie: cookie, Match: openflow.Match{regSrcGroup.is(7)}, Actions: actions}
	}
	first, second, third := openflow.Conjunction{ID: 1, Clause: 1, Clauses: 2}, openflow.Conjunction{ID: 1, Clause: 2, Clauses: 2}, openflow.Conjunction{ID: 2, Clause: 1, Clauses: 2}
	a, b, c := clause(3, first, third), clause(2, second), clause(5, third)
	want := clause(2, first, second, third)
	for _, order := range [][]openflow.Flow{{a, b, c}, {c, b, a}, {b, c, a}, {a, a, b}} {
		all := order[0]
		for _, f := range order[1:] {
			var ok bool
			if all, ok = Merge(all, f); !ok {
				t.Fatalf("%v is not united", f)
			}
		}
		if !all.Equal(want) {
			t.Errorf("%v, want %v", all, want)
		}
	}
	for what, f := range map[string]openflow.Flow{
		"a drop":                  clause(1),
		"an output":               clause(1, openflow.Output{Port: 1}),
		"a clause with an output": clause(1, first, openflow.Output{Port: 1}),
		"a clause that goes on":   {Actions: []openflow.Action{first}, Goto: 9},
	} {
		if _, ok := Merge(a, f); ok {
			t.Errorf("%s is united with a clause", what)
		}
	}
}
