package nameserver

import (
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Domain is the domain of the names of all tenants. It is reserved for private use (ICANN), so there are no public
// names below it.
const Domain = "contiv.internal."

// DomainOf returns the domain of a tenant's names, without the final dot.
func DomainOf(tenant string) string {
	return fold(tenant) + "." + strings.TrimSuffix(Domain, ".")
}

// ttl is the TTL of records from Zones in seconds, and of negative answers. It is short because
// names change with their endpoints.
const ttl = 30

// verdict is the outcome of a lookup in Zones.
type verdict int

const (
	answered  verdict = iota // the reply is complete
	partly                   // the reply has some of very many records; the next reply has others
	unknown                  // it cannot be answered, or not yet
	forwarded                // the name is not one of Zones
)

// answer completes a reply to a query of a tenant's endpoint, unless the verdict is
// forwarded. The question has class IN.
func (z *Zones) answer(tenant string, reply *dns.Msg) verdict {
	q := reply.Question[0]
	full := fold(q.Name)
	if a, ok := parseReverse(strings.TrimSuffix(full, ".")); ok {
		return z.answerReverse(tenant, reply, a)
	}
	name, ours := relative(full, tenant)
	f := found{}
	switch {
	case name == "":
		f.known = true // the zone itself, or its parent
	case strings.HasPrefix(name, "_"):
		f = z.answerSRV(tenant, reply, name, ours)
	default:
		f = z.lookup(tenant, name, ours)
		reply.Answer = addressRecords(q, f.addresses)
	}
	switch {
	case f.unsure && (ours || f.known):
		return unknown
	case !ours && !f.known:
		return forwarded
	}
	reply.Authoritative = true
	if !f.known {
		reply.Rcode = dns.RcodeNameError
	}
	if len(reply.Answer) == 0 {
		reply.Ns = []dns.RR{soa()}
	}
	if f.cut {
		return partly
	}
	return answered
}

// relative returns a name without the tenant's domain, empty for the domains themselves. ours reports whether the
// name is never forwarded to upstream servers: it is below Domain, of this tenant or another, or has one label
// only.
func relative(full, tenant string) (name string, ours bool) {
	zone := fold(tenant) + "." + Domain
	if name, ok := strings.CutSuffix(full, "."+zone); ok {
		return name, true
	}
	name = strings.TrimSuffix(full, ".")
	switch {
	case full == zone || full == Domain:
		return "", true
	case name == "":
		return ".", false // the root
	}
	return name, reserved(full)
}

// reserved reports whether a name can only be one of Zones, so that records of upstream servers for it are
// ignored.
func reserved(full string) bool {
	return dns.IsSubDomain(Domain, full) || full != "." && strings.IndexByte(full, '.') == len(full)-1
}

// addressRecords returns A or AAAA records, by the type in question, in random order, at most maxAddresses.
func addressRecords(q dns.Question, addresses []netip.Addr) (list []dns.RR) {
	for _, i := range rand.Perm(len(addresses)) {
		a, header := addresses[i], dns.RR_Header{Name: q.Name, Class: dns.ClassINET, Ttl: ttl}
		switch {
		case len(list) == maxAddresses:
			return list
		case a.Is4() && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeANY):
			header.Rrtype = dns.TypeA
			list = append(list, &dns.A{Hdr: header, A: a.AsSlice()})
		case a.Is6() && (q.Qtype == dns.TypeAAAA || q.Qtype == dns.TypeANY):
			header.Rrtype = dns.TypeAAAA
			list = append(list, &dns.AAAA{Hdr: header, AAAA: a.AsSlice()})
		}
	}
	return list
}

// answerSRV answers queries for _PORT._PROTO.SERVICE, and for _PROTO.SERVICE, which means all ports; likewise for
// providers. Of more records it returns maxAddresses, starting at a random one: the ports of all providers
// together would take too much of the server's time.
func (z *Zones) answerSRV(tenant string, reply *dns.Msg, name string, ours bool) (f found) {
	q := reply.Question[0]
	port, protocol, rest := "", "", name
	for strings.HasPrefix(rest, "_") {
		port = protocol
		protocol, rest, _ = strings.Cut(rest, ".")
	}
	s := z.lookup(tenant, rest, ours)
	var ports []Port
	for _, p := range s.ports {
		if "_"+p.Protocol == protocol && (port == "" || port == "_"+itoa(p.Number)) {
			ports = append(ports, p)
		}
	}
	if len(ports) == 0 {
		return found{unsure: s.unsure, cut: s.cut}
	}
	targets := s.targets(rest)
	all := len(ports) * len(targets)
	f = found{known: true, cut: s.cut || all > maxAddresses}
	first := 0
	if all > maxAddresses {
		first = rand.IntN(all)
	}
	told := map[int]bool{}                  // targets whose addresses are in the reply
	for i := range min(all, maxAddresses) { // one target with its ports after the other
		at := (first + i) % all
		to := at / len(ports)
		p, t := ports[at%len(ports)], targets[to]
		full, expressible := qualified(t.name, tenant)
		if !expressible {
			reply.Answer, reply.Extra = nil, nil
			return found{known: true, unsure: true}
		}
		if q.Qtype != dns.TypeSRV && q.Qtype != dns.TypeANY {
			continue
		}
		reply.Answer = append(reply.Answer, &dns.SRV{
			Hdr:  dns.RR_Header{Name: q.Name, Rrtype: dns.TypeSRV, Class: dns.ClassINET, Ttl: ttl},
			Port: s.portOf(p), Target: full,
		})
		if told[to] {
			continue
		}
		told[to] = true
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
			reply.Extra = append(reply.Extra, addressRecords(dns.Question{Name: full, Qtype: kind}, t.addresses)...)
		}
	}
	return f
}

// answerReverse answers PTR queries. Addresses outside of the tenant's subnets are forwarded, and so are addresses
// without an endpoint in a subnet shared with machines outside. In other subnets an address without an endpoint
// does not exist.
func (z *Zones) answerReverse(tenant string, reply *dns.Msg, a netip.Addr) verdict {
	names, inside, unsure := z.owner(tenant, a)
	switch {
	case unsure:
		return unknown
	case !inside:
		return forwarded
	}
	q := reply.Question[0]
	if q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY {
		for _, name := range names {
			full, expressible := qualified(name, tenant)
			if !expressible {
				reply.Answer = nil
				return unknown
			}
			reply.Answer = append(reply.Answer, &dns.PTR{
				Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}, Ptr: full,
			})
		}
	}
	reply.Authoritative = true
	if len(names) == 0 {
		reply.Rcode = dns.RcodeNameError
	}
	if len(reply.Answer) == 0 {
		reply.Ns = []dns.RR{soa()}
	}
	return answered
}

// qualified returns a name in the tenant's domain; ok is false if it is too long for a domain name.
func qualified(name, tenant string) (full string, ok bool) {
	full = name + "." + fold(tenant) + "." + Domain
	_, ok = dns.IsDomainName(full)
	return full, ok
}

// soa returns the SOA record of negative answers, with their TTL.
func soa() dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: Domain, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "ns." + Domain, Mbox: "hostmaster." + Domain,
		Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl,
	}
}
