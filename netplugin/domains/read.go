package domains

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/utils/inet"
)

// Answer has the addresses of the queried name, and of no other. If that is an alias, its target is not recorded:
// the owner of the alias made the answer, and may have added any addresses.
type Answer struct {
	Name      string // see Fold
	Addresses []netip.Addr
	TTL       time.Duration // the shortest of all records
}

// Fold returns a name in the form in which names are compared: lower case, without a trailing dot.
func Fold(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// read returns the answer of a DNS message; false if it has no addresses.
func read(message []byte) (a Answer, ok bool) {
	var m dns.Msg
	if err := m.Unpack(message); err != nil || !m.Response || m.Rcode != dns.RcodeSuccess || len(m.Question) != 1 || m.Question[0].Qclass != dns.ClassINET {
		return a, false
	}
	a.Name = Fold(m.Question[0].Name)
	ttl, chain := ^uint32(0), []string(nil)
	for at := a.Name; at != "" && !slices.Contains(chain, at); {
		chain = append(chain, at)
		next := ""
		for _, record := range m.Answer {
			if Fold(record.Header().Name) != at {
				continue
			}
			switch r := record.(type) {
			case *dns.CNAME:
				next = Fold(r.Target)
			case *dns.A:
				a.Addresses = append(a.Addresses, inet.AddrOf(r.A))
			case *dns.AAAA:
				a.Addresses = append(a.Addresses, inet.AddrOf(r.AAAA))
			default:
				continue
			}
			ttl = min(ttl, record.Header().Ttl)
		}
		at = next
	}
	// The owner of a name may not allow addresses that exist at every node, such as loopback or a metadata service at
	// 169.254.169.254.
	a.Addresses = slices.DeleteFunc(a.Addresses, func(one netip.Addr) bool { return !one.IsGlobalUnicast() })
	a.TTL = time.Duration(ttl) * time.Second
	return a, len(a.Addresses) > 0
}

// payload returns the UDP payload of a frame; nil if it is not a UDP datagram, or not a complete one.
func payload(frame []byte) []byte {
	p, ok := inet.ReadFrame(frame)
	if !ok || p.Fragment || p.Protocol != inet.UDP || len(p.Payload) < inet.UDPSize {
		return nil
	}
	size := int(binary.BigEndian.Uint16(p.Payload[4:]))
	if size < inet.UDPSize || size > len(p.Payload) {
		return nil
	}
	return p.Payload[inet.UDPSize:size]
}
