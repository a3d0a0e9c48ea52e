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

// Answer says what a name stands for: the name that was asked for, and no other. That it is an alias of another name says
// nothing of that one: the answer comes from whoever owns the alias, and he may have added any addresses.
type Answer struct {
	Name      string // see Fold
	Addresses []netip.Addr
	TTL       time.Duration // the shortest of all records
}

// Fold is a name as it is compared: in small letters, without a dot at its end.
func Fold(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// read takes an answer from a message; false: it has no addresses.
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
	// Who owns a name may not open what is at every node, such as its loopback or a service for metadata at 169.254.169.254.
	a.Addresses = slices.DeleteFunc(a.Addresses, func(one netip.Addr) bool { return !one.IsGlobalUnicast() })
	a.TTL = time.Duration(ttl) * time.Second
	return a, len(a.Addresses) > 0
}

// payload is what a datagram in a frame says; nil: it is none, or not all of one.
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
