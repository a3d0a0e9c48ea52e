package pipeline

import (
	"net/netip"
	"testing"
)

// An endpoint may use more source addresses than its own: the link-local one of its MAC, and none at all when it
// solicits an address. On a VLAN only its MAC then identifies it.
func TestRulesKnowWhoSendsOnAVLANWithoutItsAddress(t *testing.T) {
	c := startTrunks(t, vl1, vl2)
	sender, receiver := c.pod(vl2).wire(), c.pod(vl1).wire()
	frames := map[string]func(text string) []byte{
		"to everybody from the link-local address": func(s string) []byte {
			return udpFrame(mac{0x33, 0x33, 0, 0, 0, 0xfb}, vl2.MAC, addr("ff02::fb"), linkLocalOf(vl2.MAC), s)
		},
		"from one link-local address to the other": func(s string) []byte {
			return udpFrame(vl1.MAC, vl2.MAC, linkLocalOf(vl1.MAC), linkLocalOf(vl2.MAC), s)
		},
		"from the link-local address to another one": func(s string) []byte {
			return udpFrame(vl1.MAC, vl2.MAC, vl1.IPv6, linkLocalOf(vl2.MAC), s)
		},
		"a DHCP client's question": func(s string) []byte {
			f := udpFrame(broadcast, vl2.MAC, addr("255.255.255.255"), netip.IPv4Unspecified(), s)
			copy(f[34:], []byte{0, 68, 0, 67})
			return f
		},
	}
	for _, test := range []struct {
		rules string
		set   []Object
		want  int
	}{
		{"nothing from store", []Object{rule("no-store", 50, func(r *Rule) { r.SrcGroup, r.DstGroup = store, front })}, 0},
		{"only what is from store", []Object{
			rule("nobody", 10, func(r *Rule) { r.DstGroup = front }),
			rule("but-store", 50, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Allow = store, front, true }),
		}, 1},
	} {
		// The sender's node passes everything: the test is about which endpoint the receiver's node takes the sender
		// for.
		c.programNode(c.pod(vl2).node)
		c.programNode(c.pod(vl1).node, test.set...)
		for name, frame := range frames {
			text, fence := name+", "+test.rules, "fence after "+name+", "+test.rules
			sender.send(frame(text))
			sender.send(ethernet(vl1.MAC, vl2.MAC, 0x88b5, []byte(fence))) // rules do not match it
			if got := receiver.got(fence, text); got != test.want {
				t.Errorf("%s: it arrives %d times, want %d", text, got, test.want)
			}
		}
	}
}
