package nameserver

import (
	"bytes"
	"math/rand/v2"

	"github.com/miekg/dns"
)

// prepared are answers from the names of tenants, as they were sent before: most questions
// have been asked already, and to read one and to write its answer costs most of what finding
// it does. They count while the names are the same. One goroutine uses it.
type prepared struct {
	version uint64 // of the names
	answers map[string]sent
	key     []byte
}

// sent is an answer as it was sent last. The addresses in it come in another order each time,
// so that all are first equally often.
type sent struct {
	message     []byte
	first, size int // where the records of addresses begin, and the bytes of each
	records     int // how many there are; 0: nothing has an order
}

// maxPrepared is how many answers are kept at most, of MaxUDP each.
const maxPrepared = 512

// idBytes is where a message begins that has nothing to do with who asks.
const idBytes = 2

// keyOf is what an answer depends on: who asks, and all of the question but its number.
func (p *prepared) keyOf(tenant string, question []byte) []byte {
	p.key = append(append(append(p.key[:0], tenant...), 0), question[min(idBytes, len(question)):]...)
	return p.key
}

// find writes the answer to a question into a space, if it need not be made.
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

// keep keeps an answer that names all there is. It is the message for a reply.
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

// sentOf prepares an answer. Of those with several records only addresses of one family can be
// reordered: no name in the message points into them, and all are of the same size.
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

// shuffle puts the records into any order.
func (s sent) shuffle() {
	record := func(i int) []byte { return s.message[s.first+i*s.size:][:s.size] }
	rand.Shuffle(s.records, func(i, j int) {
		a, b := record(i), record(j)
		for at := range a {
			a[at], b[at] = b[at], a[at]
		}
	})
}
