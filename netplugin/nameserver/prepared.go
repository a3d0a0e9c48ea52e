package nameserver

import (
	"bytes"
	"math/rand/v2"

	"github.com/miekg/dns"
)

// prepared are encoded answers from Zones, by tenant and query: most queries are repeated, and parsing a query and
// encoding its answer costs more than the lookup. They are valid for one version of Zones. Only one goroutine uses
// it.
type prepared struct {
	version uint64 // of Zones
	answers map[string]sent
	key     []byte
}

// sent is an answer as last sent. Its address records are shuffled each time, so that every address is first
// equally often.
type sent struct {
	message     []byte
	first, size int // offset of the first address record, and the bytes of each
	records     int // how many there are; 0: nothing to shuffle
}

// maxPrepared limits the number of answers, of up to MaxUDP bytes each.
const maxPrepared = 512

// idBytes is the length of the message id, with which each query begins, and which its answer repeats.
const idBytes = 2

// keyOf returns the tenant, followed by the query without its id.
func (p *prepared) keyOf(tenant string, question []byte) []byte {
	p.key = append(append(append(p.key[:0], tenant...), 0), question[min(idBytes, len(question)):]...)
	return p.key
}

// find writes the prepared answer to a query into space; it returns nil if there is none.
func (p *prepared) find(version uint64, tenant string, question, space []byte) []byte {
	if p.version != version {
		p.version = version
		clear(p.answers)
	}
	s, known := p.answers[string(p.keyOf(tenant, question))]
	if !known {
		return nil
	}
	s.shuffle()
	answer := append(space, s.message...)
	copy(answer, question[:idBytes])
	return answer
}

// keep stores the encoded message of a reply, which must have all the records of its name.
func (p *prepared) keep(version uint64, tenant string, question, message []byte, reply *dns.Msg) {
	s, ok := sentOf(message, reply)
	if !ok || p.version != version {
		return
	}
	if p.answers == nil || len(p.answers) >= maxPrepared {
		p.answers = map[string]sent{}
	}
	p.answers[string(p.keyOf(tenant, question))] = s
}

// sentOf prepares an answer with one record, or with several address records of one IP family: these can be
// shuffled, as they have the same size and no compressed name refers to them.
func sentOf(message []byte, reply *dns.Msg) (s sent, ok bool) {
	const typeAndClassBytes = 4
	switch kind := reply.Question[0].Qtype; {
	case reply.Truncated || len(reply.Answer) == 0:
		return sent{}, false
	case len(reply.Answer) == 1:
		return sent{message: bytes.Clone(message)}, true
	case kind != dns.TypeA && kind != dns.TypeAAAA:
		return sent{}, false
	}
	_, question, err := dns.UnpackDomainName(message, headerBytes)
	if err != nil {
		return sent{}, false
	}
	first := question + typeAndClassBytes
	_, second, err := dns.UnpackRR(message, first)
	if err != nil {
		return sent{}, false
	}
	return sent{bytes.Clone(message), first, second - first, len(reply.Answer)}, true
}

// shuffle puts the address records into random order.
func (s sent) shuffle() {
	record := func(i int) []byte { return s.message[s.first+i*s.size:][:s.size] }
	rand.Shuffle(s.records, func(i, j int) {
		a, b := record(i), record(j)
		for at := range a {
			a[at], b[at] = b[at], a[at]
		}
	})
}
