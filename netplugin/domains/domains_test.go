package domains

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// message is what a name server says to a question.
func message(t *testing.T, question string, records ...string) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(question, dns.TypeA)
	m.Response, m.Compress = true, true
	for _, text := range records {
		record, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Answer = append(m.Answer, record)
	}
	data, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAnAnswerIsAboutTheNameThatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    string
	}{
		"addresses":              {[]string{"Shop.Example. 30 IN A 192.0.2.1", "shop.example. 20 IN A 192.0.2.2"}, "shop.example [192.0.2.1 192.0.2.2] 20s"},
		"an alias":               {[]string{"shop.example. 9 IN CNAME a.cdn.example.", "a.cdn.example. 60 IN AAAA 2001:db8::1"}, "shop.example [2001:db8::1] 9s"},
		"something else beside":  {[]string{"shop.example. 30 IN A 192.0.2.1", "shop.example. 1 IN TXT \"x\"", "bank.example. 30 IN A 192.0.2.9"}, "shop.example [192.0.2.1] 30s"},
		"aliases in a circle":    {[]string{"shop.example. 9 IN CNAME b.example.", "b.example. 9 IN CNAME shop.example."}, "nothing"},
		"hosts of no network":    {[]string{"shop.example. 30 IN A 127.0.0.1", "shop.example. 30 IN A 169.254.169.254", "shop.example. 30 IN AAAA fe80::1", "shop.example. 30 IN A 10.0.0.1"}, "shop.example [10.0.0.1] 30s"},
		"nothing that was asked": {[]string{"bank.example. 30 IN A 192.0.2.9"}, "nothing"},
	} {
		a, ok := read(message(t, "SHOP.example.", c.records...))
		got := fmt.Sprint(a.Name, " ", a.Addresses, " ", a.TTL)
		if !ok {
			got = "nothing"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	whole := message(t, "shop.example.", "shop.example. 30 IN A 192.0.2.1", "shop.example. 30 IN A 192.0.2.2")
	but := func(change func(*dns.Msg)) []byte {
		var m dns.Msg
		if err := m.Unpack(whole); err != nil {
			t.Fatal(err)
		}
		change(&m)
		data, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, odd := range map[string][]byte{
		"a question": but(func(m *dns.Msg) { m.Response = false }), "no such name": but(func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }),
		"two questions":  but(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"no question":    but(func(m *dns.Msg) { m.Question = nil }),
		"of another net": but(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
		"cut off":        whole[:len(whole)-2], "empty": nil,
	} {
		if a, ok := read(odd); ok {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestOnlyWholeDatagramsAreRead(t *testing.T) {
	udp := append(binary.BigEndian.AppendUint16([]byte{0, 53, 0x80, 0}, 8+5), 0, 0, 'h', 'e', 'l', 'l', 'o')
	ipv4 := append(make([]byte, 12), 0x08, 0x00, 0x46) // with an option of 4 bytes
	ipv4 = append(ipv4, make([]byte, 23)...)
	ipv4[14+3], ipv4[14+9] = byte(24+len(udp)), 17
	ipv4 = append(ipv4, udp...)
	ipv6 := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0, 0, 13, 17)
	ipv6 = append(ipv6, make([]byte, 33)...)
	ipv6 = append(ipv6, udp...)
	for name, frame := range map[string][]byte{"IPv4": ipv4, "IPv6": ipv6, "IPv4, padded": append(slices.Clone(ipv4), 0, 0)} {
		if got := string(payload(frame)); got != "hello" {
			t.Errorf("%s: %q", name, got)
		}
		for cut := range frame {
			if got := payload(frame[:cut]); got != nil && string(got) != "hello" {
				t.Fatalf("%s, %d bytes of it: %q", name, cut, got)
			}
		}
	}
	fragment, tcp := slices.Clone(ipv4), slices.Clone(ipv4)
	fragment[14+6], tcp[14+9] = 0x20, 6
	for name, frame := range map[string][]byte{"the first fragment": fragment, "TCP": tcp} {
		if got := payload(frame); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTheBookHasTheAddressesOfNamesForAWhile(t *testing.T) {
	now := time.Now()
	book, names := Book{}, []string{"kubernetes.io", "*.kubernetes.io", "*.example"}
	hear := func(name, address string, ttl time.Duration, want string) {
		t.Helper()
		if changed, _ := book.Hear(names, Answer{name, []netip.Addr{netip.MustParseAddr(address)}, ttl}, now); fmt.Sprint(changed) != want {
			t.Errorf("%s: %s, want %s", name, changed, want)
		}
	}
	hear("kubernetes.io", "192.0.2.1", 0, "[kubernetes.io]")
	hear("my-kubernetes.io", "192.0.2.9", 0, "[]")
	hear(`my\.kubernetes.io`, "192.0.2.9", 0, "[]") // of the labels my.kubernetes and io: whoever has names below io may make it
	hear("www.kubernetes.io", "192.0.2.2", 3*time.Hour, "[*.kubernetes.io]")
	hear("latest.blog.kubernetes.io", "2001:db8::1", 0, "[*.kubernetes.io]")
	hear("kubernetes.io", "192.0.2.1", 0, "[]") // once more
	has := func(when, want string) {
		t.Helper()
		if open, over := book.Of(names); fmt.Sprint(open, over) != want {
			t.Errorf("%s: %s and %s, want %s", when, open, over, want)
		}
	}
	has("heard", "[192.0.2.1/32 192.0.2.2/32 2001:db8::1/128] []")
	now = now.Add(40 * time.Minute)
	hear("kubernetes.io", "192.0.2.1", time.Second, "[]") // counts for longer now
	now = now.Add(40 * time.Minute)
	if changed := book.Expire(now); fmt.Sprint(changed) != "[*.kubernetes.io]" {
		t.Errorf("too old: %s", changed)
	}
	has("a name of a second was heard again", "[192.0.2.1/32 192.0.2.2/32] [2001:db8::1/128]")
	if changed := book.Expire(now); len(changed) != 0 {
		t.Errorf("once more: %s", changed)
	}
	hear("latest.blog.kubernetes.io", "2001:db8::1", 0, "[*.kubernetes.io]")
	has("connections may begin again", "[192.0.2.1/32 192.0.2.2/32 2001:db8::1/128] []")
	now = now.Add(longest)
	book.Expire(now)
	has("after a day only connections that have begun go on", "[] [192.0.2.1/32 192.0.2.2/32 2001:db8::1/128]")
	if changed := book.Expire(now.Add(begun)); len(changed) != 2 || len(book) != 0 {
		t.Errorf("a week later: %s change, left: %v", changed, book)
	}
}

// An answer counts for as long as it says, also where a later one counts for less: who has asked before still has the address.
func TestALaterAnswerDoesNotEndAnEarlierOne(t *testing.T) {
	now := time.Now()
	book, names := Book{}, []string{"example"}
	for _, ttl := range []time.Duration{3 * time.Hour, time.Second} {
		book.Hear(names, Answer{"example", []netip.Addr{netip.MustParseAddr("192.0.2.1")}, ttl}, now)
	}
	book.Expire(now.Add(2 * time.Hour))
	if open, over := book.Of(names); len(open) != 1 || len(over) != 0 {
		t.Errorf("after two of three hours: %s, %s", open, over)
	}
}

// A book that was written before the clock of the node was put back counts for a day at most.
func TestAnswersOfTomorrowDoNotCountForLonger(t *testing.T) {
	now := time.Now()
	book, names := Book{}, []string{"example"}
	book.Hear(names, Answer{"example", []netip.Addr{netip.MustParseAddr("192.0.2.1")}, 0}, now.Add(1000*time.Hour))
	book.Expire(now)
	if open, over := book.Of(names); len(open) != 1 || len(over) != 0 {
		t.Errorf("it does not count any more: %s, %s", open, over)
	}
	if book.Expire(now.Add(longest)); !book[names[0]][netip.MustParseAddr("192.0.2.1")].Over {
		t.Errorf("counts after a day: %v", book)
	}
}

// Many new addresses in answers, with the longest lifetimes, keep out neither later addresses, nor those that are
// answered repeatedly.
func TestTheAddressesHeardLongestAgoMakeRoom(t *testing.T) {
	now := time.Now()
	book, names := Book{}, []string{"*.example"}
	hear := func(ttl time.Duration, addresses ...netip.Addr) []string {
		now = now.Add(time.Second)
		changed, _ := book.Hear(names, Answer{"a.example", addresses, ttl}, now)
		return changed
	}
	numbered := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }
	steady, once := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	hear(0, once)
	var all []netip.Addr
	for i := range most {
		hear(0, steady)
		hear(longest, numbered(i))
		all = append(all, numbered(i))
	}
	late := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")}
	for _, one := range late {
		if changed := hear(0, one); len(changed) != 1 {
			t.Errorf("%s changes %s", one, changed)
		}
	}
	for one, want := range map[netip.Addr]bool{steady: true, once: false, late[0]: true, late[1]: true, numbered(0): false, numbered(most - 1): true} {
		if _, got := book[names[0]][one]; got != want {
			t.Errorf("%s counts: %v, want %v", one, got, want)
		}
	}
	if hear(0, append(all, late...)...); len(book[names[0]]) != most {
		t.Errorf("%d addresses of one name, want %d", len(book[names[0]]), most)
	}
	over := late[0]
	book[names[0]][over] = Entry{Heard: now, Until: now, Over: true}
	hear(0, once)
	if _, left := book[names[0]][over]; left || len(book[names[0]]) != most {
		t.Errorf("what is over is to make room first: %v, %d addresses", left, len(book[names[0]]))
	}
}
