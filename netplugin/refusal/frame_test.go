package refusal

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/inet"
)

// packet4 returns a frame from 02:..:01 to 02:..:02, 10.1.1.1 to 10.1.1.200; the rest is in hexadecimal: flags and
// offset of fragments, protocol, payload of IP.
func packet4(fragment, protocol, rest string) []byte {
	body := strings.ReplaceAll(rest, " ", "")
	b, err := hex.DecodeString("020000000002020000000001" + "0800" + "45000000" + "0000" + fragment + "40" + protocol + "0000" + "0a010101" + "0a0101c8" + body)
	if err != nil {
		panic(err)
	}
	size := len(b) - inet.EthernetSize
	b[16], b[17] = byte(size>>8), byte(size)
	return b
}

func TestRefusals(t *testing.T) {
	const to = "020000000001020000000002" + "0800"
	for _, test := range []struct {
		name   string
		packet []byte
		want   string // from the protocol on: the addresses, the payload; empty: silence
	}{
		{"a SYN", packet4("4000", "06", "c000 0050 00000007 00000000 5002 ffff 0000 0000"),
			"06" + "0a0101c8" + "0a010101" + "0050c000" + "00000000" + "00000008" + "50140000"},
		{"an ACK in the middle, with data", packet4("4000", "06", "c000 0050 00000007 00000009 5010 ffff 0000 0000 0102"),
			"06" + "0a0101c8" + "0a010101" + "0050c000" + "00000009" + "00000000" + "50040000"},
		{"a FIN without ACK, with data", packet4("4000", "06", "c000 0050 00000007 00000000 5001 ffff 0000 0000 010203"),
			"06" + "0a0101c8" + "0a010101" + "0050c000" + "00000000" + "0000000b" + "50140000"},
		{"a datagram", packet4("0000", "11", "c000 0035 0009 0000 58"),
			"01" + "0a0101c8" + "0a010101" + "0303"},
		{"its first fragment", packet4("2000", "11", "c000 0035 0fff 0000 5858585858585858"),
			"01" + "0a0101c8" + "0a010101" + "0303"},
		{"a later fragment", packet4("2001", "11", "5858585858585858"), ""},
		{"a reset", packet4("4000", "06", "c000 0050 00000007 00000000 5004 ffff 0000 0000"), ""},
		{"half a segment", packet4("4000", "06", "c000 0050 00000007"), ""},
		{"a segment with a header longer than itself", packet4("4000", "06", "c000 0050 00000007 00000000 f002 ffff 0000 0000"), ""},
		{"ICMP", packet4("4000", "01", "0303 0000 0000 0000"), ""},
		{"less than it says", packet4("4000", "11", "c000 0035 0009 0000 58")[:40], ""},
		{"nothing", nil, ""},
	} {
		got := answerTo(test.packet)
		if test.want == "" {
			if got != nil {
				t.Errorf("%s is answered: %x", test.name, got)
			}
			continue
		}
		text := hex.EncodeToString(got)
		if !strings.HasPrefix(text, to) {
			t.Errorf("%s: %s", test.name, text)
			continue
		}
		ip := got[inet.EthernetSize:]
		if inet.Checksum(ip[:inet.IPv4Size], 0) != 0 {
			t.Errorf("%s: checksum of the IP header is wrong: %s", test.name, text)
		}
		if ip[9] == inet.ICMP && inet.Checksum(ip[inet.IPv4Size:], 0) != 0 {
			t.Errorf("%s: checksum of ICMP is wrong: %s", test.name, text)
		}
		// Without the checksum of IP, in between.
		if shown := hex.EncodeToString(append([]byte{ip[9]}, ip[12:]...)); !strings.HasPrefix(shown, test.want) {
			t.Errorf("%s: %s, want %s", test.name, shown, test.want)
		}
	}
}

// packet6 is a frame of IPv6, from fd00::1 to fd00::c8.
func packet6(next, rest string) []byte {
	body := strings.ReplaceAll(rest, " ", "")
	b, err := hex.DecodeString("020000000002020000000001" + "86dd" + "60000000" + "0000" + next + "40" +
		"fd000000000000000000000000000001" + "fd0000000000000000000000000000c8" + body)
	if err != nil {
		panic(err)
	}
	size := len(b) - inet.EthernetSize - inet.IPv6Size
	b[18], b[19] = byte(size>>8), byte(size)
	return b
}

func TestRefusalsOfIPv6(t *testing.T) {
	const header = "020000000001020000000002" + "86dd" + "60000000"
	const addresses = "fd0000000000000000000000000000c8" + "fd000000000000000000000000000001"
	for _, test := range []struct {
		name   string
		packet []byte
		want   string // from the next header on, without checksums; empty: silence
	}{
		{"a SYN", packet6("06", "c000 0050 00000007 00000000 5002 ffff 0000 0000"), "0640" + addresses + "0050c000" + "00000000" + "00000008" + "50140000"},
		{"a datagram", packet6("11", "c000 0035 0009 0000 58"), "3a40" + addresses + "0104"},
		{"a reset", packet6("06", "c000 0050 00000007 00000000 5004 ffff 0000 0000"), ""},
		{"ICMP", packet6("3a", "0104 0000 0000 0000"), ""},
		{"its first fragment", packet6("2c", "1100 0001 0000 0001 c000 0035 0fff 0000 5858585858585858"),
			"3a40" + addresses + "0104"},
		{"a later fragment", packet6("2c", "1100 0009 0000 0001 5858585858585858"), ""},
		{"a fragment of ICMP", packet6("2c", "3a00 0001 0000 0001 0104 0000 0000 0000"), ""},
		{"half a fragment", packet6("2c", "1100 0001 0000 0001 c000"), ""},
		{"less than it says", packet6("11", "c000 0035 0009 0000 58")[:60], ""},
	} {
		got := answerTo(test.packet)
		if test.want == "" {
			if got != nil {
				t.Errorf("%s is answered: %x", test.name, got)
			}
			continue
		}
		text := hex.EncodeToString(got)
		if !strings.HasPrefix(text, header) || !strings.HasPrefix(text[len(header)+4:], test.want) {
			t.Errorf("%s: %s", test.name, text)
			continue
		}
		p, ok := inet.ReadFrame(got)
		if !ok || inet.Checksum(p.Payload, p.Pseudo(p.Protocol, len(p.Payload))) != 0 {
			t.Errorf("%s: checksum is wrong: %s", test.name, text)
		}
	}
}

func FuzzTo(f *testing.F) {
	f.Add(packet4("4000", "06", "c000 0050 00000007 00000000 5002 ffff 0000 0000"))
	f.Add(packet4("0000", "11", "c000 0035 0009 0000 58"))
	f.Add(packet6("06", "c000 0050 00000007 00000000 5002 ffff 0000 0000"))
	f.Add(packet6("11", "c000 0035 0009 0000 58"))
	f.Add(packet6("2c", "1100 0001 0000 0001 c000 0035 0fff 0000 5858585858585858"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		answer := answerTo(frame)
		if answer == nil {
			return
		}
		if len(answer) > inet.EthernetSize+1280 || answer[12] == 0x08 && inet.Checksum(answer[inet.EthernetSize:inet.EthernetSize+inet.IPv4Size], 0) != 0 {
			t.Errorf("%x", answer)
		}
		if answerTo(answer) != nil {
			t.Errorf("the answer %x is answered", answer)
		}
	})
}
