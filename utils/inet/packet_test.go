package inet

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

const macs = "0000 1111 1111 0200 0000 0001"

func frameOf(t testing.TB, text string) []byte {
	t.Helper()
	frame, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestPacketsAreReadFromFrames(t *testing.T) {
	const (
		rest4 = " 0a000001 0a000002"
		ipv6  = macs + "86dd 6000 0000 "
		rest6 = " 20010db8000000000000000000000001 20010db8000000000000000000000002 "
	)
	for name, c := range map[string]struct{ frame, want string }{
		"IPv4":                                  {macs + "0800 4500 0016 0000 4000 40 11 0000" + rest4 + " 0102", "17 0102"},
		"IPv4, padded":                          {macs + "0800 4500 0016 0000 4000 40 11 0000" + rest4 + " 0102 0000", "17 0102"},
		"options":                               {macs + "0800 4600 0019 0000 0000 40 06 0000" + rest4 + " 01010101 09", "6 09"},
		"the first fragment":                    {macs + "0800 4500 0015 0000 2000 40 11 0000" + rest4 + " 07", "17 fragment 07"},
		"a later one":                           {macs + "0800 4500 0015 0000 0001 40 11 0000" + rest4 + " 07", "17 fragment later 07"},
		"without payload":                       {macs + "0800 4500 0014 0000 0000 40 01 0000" + rest4, "1 "},
		"IPv6":                                  {ipv6 + "0002 3a 40" + rest6 + "8000", "58 8000"},
		"IPv6, padded":                          {ipv6 + "0001 3a 40" + rest6 + "8000", "58 80"},
		"IPv6, an extension nobody knows":       {ipv6 + "0001 00 40" + rest6 + "11", "0 11"},
		"IPv6, the first fragment":              {ipv6 + "0009 2c 40" + rest6 + "1100 0001 00000000 05", "17 fragment 05"},
		"IPv6, a later one":                     {ipv6 + "0009 2c 40" + rest6 + "1100 0008 00000000 05", "17 fragment later 05"},
		"IPv6, a fragment that is all there is": {ipv6 + "0009 2c 40" + rest6 + "1100 0000 00000000 05", "17 05"},
		"no frame":                              {macs, ""},
		"ARP":                                   {macs + "0806 4500 0014 0000 0000 40 01 0000" + rest4, ""},
		"half a header":                         {macs + "0800 4500 0014 0000", ""},
		"another version":                       {macs + "0800 6500 0014 0000 0000 40 01 0000" + rest4, ""},
		"less than it says":                     {macs + "0800 4500 0016 0000 0000 40 01 0000" + rest4 + "01", ""},
		"shorter than its header":               {macs + "0800 4500 0013 0000 0000 40 01 0000" + rest4, ""},
		"a header without addresses":            {macs + "0800 4400 0014 0000 0000 40 01 0000" + rest4, ""},
		"options beyond its end":                {macs + "0800 4600 0014 0000 0000 40 01 0000" + rest4, ""},
		"half a header of IPv6":                 {ipv6 + "0000 3a 40" + rest6[:40], ""},
		"IPv6, another version":                 {macs + "86dd 4000 0000 0000 3a 40" + rest6, ""},
		"IPv6, less than it says":               {ipv6 + "0003 3a 40" + rest6 + "8000", ""},
		"IPv6, half the header of a fragment":   {ipv6 + "0004 2c 40" + rest6 + "1100 0000", ""},
	} {
		got := ""
		if p, ok := ReadFrame(frameOf(t, c.frame)); ok {
			got = fmt.Sprint(p.Protocol, " ")
			if p.Fragment {
				got += "fragment "
			}
			if p.Later {
				got += "later "
			}
			got += hex.EncodeToString(p.Payload)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAPacketKnowsItsAddresses(t *testing.T) {
	for _, c := range []struct{ frame, src, dst string }{
		{macs + "0800 4500 0014 0000 0000 40 01 0000 0a000001 0a000002", "0a000001", "0a000002"},
		{macs + "86dd 60000000 0000 3a 40 20010db8000000000000000000000001 20010db8000000000000000000000002", "20010db8000000000000000000000001", "20010db8000000000000000000000002"},
	} {
		p, ok := ReadFrame(frameOf(t, c.frame))
		if got := []string{hex.EncodeToString(p.Src()), hex.EncodeToString(p.Dst())}; !ok || got[0] != c.src || got[1] != c.dst {
			t.Errorf("%v", got)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frameOf(f, macs+"0800 4500 0016 0000 4000 40 11 0000 0a000001 0a000002 0102"))
	f.Add(frameOf(f, macs+"86dd 60000000 0009 2c 40 20010db8000000000000000000000001 20010db8000000000000000000000002 1100 0001 00000000 05"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, ok := ReadFrame(frame)
		if !ok {
			return
		}
		if !bytes.HasPrefix(frame[EthernetSize:], p.All) || !bytes.HasPrefix(p.All, p.Header) || !bytes.HasSuffix(p.All, p.Payload) || len(p.Header)+len(p.Payload) > len(p.All) {
			t.Errorf("%x has a packet %x, with header %x and payload %x", frame, p.All, p.Header, p.Payload)
		}
		if len(p.Src()) != len(p.Dst()) || p.Later && !p.Fragment {
			t.Errorf("%x: from %x to %x", frame, p.Src(), p.Dst())
		}
	})
}
