package icmperror

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/inet"
)

const (
	gateway4, gateway6 = "10.1.1.254", "fd00:1::ffff"
	// From 02:..:01 to 02:..:02.
	ethernet4 = "020000000002 020000000001 0800"
	ethernet6 = "020000000002 020000000001 86dd"
	// What follows the lengths: 10.1.1.1 to 10.9.9.9, fd00:1::1 to 2001:db8::1.
	addresses4 = "0a010101 0a090909"
	addresses6 = "fd000001000000000000000000000001 20010db8000000000000000000000001"
)

func raw(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// v4 returns a packet with flags and offset of fragments, a protocol and a payload.
func v4(t testing.TB, fragment, protocol string, payload []byte) []byte {
	b := append(raw(t, ethernet4+"4500 0000 0000"+fragment+"40"+protocol+"0000"+addresses4), payload...)
	b[16], b[17] = byte((len(b)-14)>>8), byte(len(b)-14)
	return b
}

func v6(t testing.TB, next string, payload []byte) []byte {
	b := append(raw(t, ethernet6+"60000000 0000"+next+"40"+addresses6), payload...)
	b[18], b[19] = byte(len(payload)>>8), byte(len(payload))
	return b
}

// checked reports whether the checksum of an ICMP message is right.
func checked(t testing.TB, frame []byte) bool {
	p, ok := parse(frame)
	if !ok || p.Protocol != p.icmp {
		return false
	}
	if p.IsIPv6() {
		return inet.Checksum(p.Payload, inet.Sum(p.Header[8:], 58+uint32(len(p.Payload)))) == 0
	}
	return inet.Checksum(p.Payload, 0) == 0
}

// quotedOf is what an answer quotes of the packet in a frame: fragments as if they were whole.
func quotedOf(frame []byte) []byte {
	about := bytes.Clone(frame[14:])
	switch {
	case about[0]>>4 == 4:
		about[6] &= 0x40
		about[7] = 0
		inet.SumIPv4(about[:20])
	case about[6] == 44:
		about[6] = about[40]
		about[4], about[5] = byte((len(about)-48)>>8), byte(len(about)-48)
		about = append(about[:40], about[48:]...)
	}
	return about
}

func TestASenderIsToldWhatItsWayCarries(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 1500)
	for name, c := range map[string]struct {
		frame  []byte
		router string
		want   string // the answer, without lengths and checksums; empty: there is none
	}{
		"IPv4, not to be fragmented": {v4(t, "4000", "11", data), gateway4, "0304 ---- 0000 05aa"},
		"IPv4, may be fragmented":    {v4(t, "0000", "06", data), gateway4, "0304 ---- 0000 05aa"},
		"its first fragment":         {v4(t, "2000", "11", data), gateway4, "0304 ---- 0000 05aa"},
		"a later one":                {v4(t, "2001", "11", data), gateway4, ""},
		"a ping":                     {v4(t, "4000", "01", append([]byte{8, 0}, data...)), gateway4, "0304 ---- 0000 05aa"},
		"an ICMP error":              {v4(t, "4000", "01", append([]byte{3, 1}, data...)), gateway4, ""},
		"IPv6":                       {v6(t, "11", data), gateway6, "0200 ---- 000005aa"},
		"an ICMPv6 error":            {v6(t, "3a", append([]byte{1, 4}, data...)), gateway6, ""},
		"IPv6, the first fragment":   {v6(t, "2c", append(raw(t, "1100 0001 12345678"), data...)), gateway6, "0200 ---- 000005aa"},
		"IPv6, a later one":          {v6(t, "2c", append(raw(t, "1100 0008 12345678"), data...)), gateway6, ""},
		"IPv6, the only fragment":    {v6(t, "2c", append(raw(t, "1100 0000 12345678"), data...)), gateway6, "0200 ---- 000005aa"},
		"a router of another family": {v6(t, "11", data), gateway4, ""},
		"less than it says":          {v4(t, "4000", "11", data)[:900], gateway4, ""},
		"less than a header":         {v6(t, "11", nil)[:40], gateway6, ""},
		"ARP":                        {append(raw(t, "020000000002 020000000001 0806"), data...), gateway4, ""},
	} {
		answered(t, name, c.frame, tooBigError(c.frame, 1450, netip.MustParseAddr(c.router)), c.router, c.want)
	}
}

func TestASenderIsToldThatItsPacketHasNoHopLeft(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 30)
	for name, c := range map[string]struct {
		frame  []byte
		router string
		want   string // the answer, without lengths and checksums; empty: there is none
	}{
		"IPv4":                       {v4(t, "0000", "11", data), gateway4, "0b00 ---- 0000 0000"},
		"its first fragment":         {v4(t, "2000", "11", data), gateway4, "0b00 ---- 0000 0000"},
		"a later one":                {v4(t, "2001", "11", data), gateway4, ""},
		"a ping":                     {v4(t, "4000", "01", append([]byte{8, 0}, data...)), gateway4, "0b00 ---- 0000 0000"},
		"such an error":              {v4(t, "4000", "01", append([]byte{11, 0}, data...)), gateway4, ""},
		"IPv6":                       {v6(t, "11", data), gateway6, "0300 ---- 00000000"},
		"such an error of ICMPv6":    {v6(t, "3a", append([]byte{3, 0}, data...)), gateway6, ""},
		"a router of another family": {v6(t, "11", data), gateway4, ""},
		"ARP":                        {append(raw(t, "020000000002 020000000001 0806"), data...), gateway4, ""},
	} {
		answered(t, name, c.frame, expiredError(c.frame, netip.MustParseAddr(c.router)), c.router, c.want)
	}
}

// answered compares an answer to a frame, which quotes as much of it as it may.
func answered(t *testing.T, name string, frame, got []byte, router, want string) {
	t.Helper()
	if want == "" {
		if got != nil {
			t.Errorf("%s is answered: %x", name, got)
		}
		return
	}
	p, ok := parse(got)
	if !ok || !checked(t, got) {
		t.Errorf("%s: %x", name, got)
		return
	}
	begin, about := hex.EncodeToString(p.Payload[:2])+"----"+hex.EncodeToString(p.Payload[4:8]), quotedOf(frame)
	if begin != strings.ReplaceAll(want, " ", "") || !bytes.Equal(p.Src(), netip.MustParseAddr(router).AsSlice()) ||
		!bytes.Equal(p.Payload[inet.ICMPSize:], about[:min(len(about), p.quoted)]) ||
		!p.IsIPv6() && inet.Checksum(p.Header, 0) != 0 || !bytes.Equal(got[:12], raw(t, "020000000001 000011111111")) {
		t.Errorf("%s: %x", name, got)
	}
}

func TestAnErrorQuotesWhatTheEndpointHasSent(t *testing.T) {
	quote4 := "4500 05dc 0000 4000 3f11 1234 ac130005 0a090909 c0000035 05c8 0000"
	quote6 := "60000000 05b4 11 3f fd636f6e746974010000000000000005 20010db8000000000000000000000001 c0000035 05b4 0000"
	for name, c := range map[string]struct {
		frame []byte
		want  string // the quoted source; empty: nothing is delivered
	}{
		"IPv4":                   {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578"+quote4)), "0a090909"},
		"IPv6":                   {v6(t, "3a", raw(t, "0200 0000 00000578"+quote6)), "20010db8000000000000000000000001"},
		"its first fragment":     {v4(t, "2000", "01", raw(t, "0304 0000 0000 0578"+quote4)), ""},
		"a later one":            {v4(t, "0001", "01", raw(t, "0304 0000 0000 0578"+quote4)), ""},
		"no error":               {v4(t, "4000", "01", raw(t, "0800 0000 0000 0578"+quote4)), ""},
		"half a quote":           {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578"+quote4)[:20]), ""},
		"options beyond its end": {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578 4f"+quote4[2:])), ""},
		"a quote of the other":   {v6(t, "3a", raw(t, "0200 0000 00000578"+quote4+quote4)), ""},
	} {
		before := bytes.Clone(c.frame)
		got := restored(c.frame)
		if !bytes.Equal(before, c.frame) {
			t.Errorf("%s: the packet itself is changed", name)
		}
		if c.want == "" {
			if got != nil {
				t.Errorf("%s: %x", name, got)
			}
			continue
		}
		p, ok := parse(got)
		if !ok || !checked(t, got) {
			t.Errorf("%s: %x", name, got)
			continue
		}
		about := inet.Packet{Header: p.Payload[inet.ICMPSize:][:p.size]}
		if hex.EncodeToString(about.Src()) != c.want || !p.IsIPv6() && inet.Checksum(about.Header, 0) != 0 {
			t.Errorf("%s: quoted %x", name, about.Header)
		}
	}
}

func TestAnErrorTellsFromWhichPortTheAnswerWas(t *testing.T) {
	quote4 := "4500 05dc 0000 4000 3f 11 1234 ac13fffd 0a090909 7535 d431"
	quote6 := "60000000 05b4 06 3f fd636f6e74697601000000000000fffd 20010db8000000000000000000000001 7535 d431"
	for name, c := range map[string]struct {
		frame    []byte
		protocol uint8 // 0: unknown
	}{
		"IPv4":                            {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578"+quote4)), 17},
		"IPv6":                            {v6(t, "3a", raw(t, "0200 0000 00000578"+quote6)), 6},
		"the answer's first fragment":     {v4(t, "4000", "01", raw(t, "0b01 0000 0000 0000"+strings.Replace(quote4, "4000", "2000", 1))), 17},
		"a later one":                     {v4(t, "4000", "01", raw(t, "0b01 0000 0000 0000"+strings.Replace(quote4, "4000", "2001", 1))), 0},
		"options before the port":         {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578"+strings.NewReplacer("4500 ", "4600 ", "0a090909 ", "0a090909 01010101 ").Replace(quote4))), 17},
		"options beyond its end":          {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578"+strings.Replace(quote4, "4500 ", "4f00 ", 1))), 0},
		"about a ping":                    {v4(t, "4000", "01", raw(t, "0301 0000 0000 0000"+strings.Replace(quote4, "3f 11", "3f 01", 1))), 0},
		"no error":                        {v4(t, "4000", "01", raw(t, "0800 0000 0000 0578"+quote4)), 0},
		"a fragment of one":               {v4(t, "2000", "01", raw(t, "0304 0000 0000 0578"+quote4)), 0},
		"a quote that ends with its head": {v4(t, "4000", "01", raw(t, "0304 0000 0000 0578"+quote4)[:28]), 0},
		"a quote of the other version":    {v6(t, "3a", raw(t, "0200 0000 00000578"+quote4+quote4)), 0},
	} {
		protocol, port, ok := quotedPort(c.frame)
		if ok != (c.protocol != 0) || ok && (protocol != c.protocol || port != 30005) {
			t.Errorf("%s: port %d of protocol %d, %t", name, port, protocol, ok)
		}
	}
}

func FuzzPackets(f *testing.F) {
	f.Add(v4(f, "4000", "11", make([]byte, 100)))
	f.Add(v6(f, "3a", append([]byte{2, 0}, make([]byte, 100)...)))
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, router := range []string{gateway4, gateway6} {
			answer := tooBigError(frame, 1450, netip.MustParseAddr(router))
			expired := expiredError(frame, netip.MustParseAddr(router))
			if (answer == nil) != (expired == nil) {
				t.Errorf("too big: %x, no hop left: %x", answer, expired)
			}
			if answer == nil {
				continue
			}
			for _, told := range [][]byte{answer, expired} {
				if !checked(t, told) || len(told) > inet.EthernetSize+1280 {
					t.Errorf("%x", told)
				}
			}
			if tooBigError(answer, 100, netip.MustParseAddr(router)) != nil {
				t.Errorf("the answer %x is answered", answer)
			}
		}
		_, _, _ = quotedPort(frame)
		if restored := restored(frame); restored != nil && !checked(t, restored) {
			t.Errorf("%x", restored)
		}
	})
}
