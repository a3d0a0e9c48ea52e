package nameserver

import "math/rand/v2"

// prepared are answers from the names of tenants, as they were sent before: most questions
// have been asked already, and to read one and to write its answer costs most of what finding
// it does. They count while the names are the same. One goroutine uses it.
//
// The records of an answer come in any order. So some orders of the same records are kept,
// and one of them is told.
type prepared struct {
	version uint64 // of the names
	answers map[string][][]byte
	key     []byte
}

// How much is kept: at most so many questions, and so many orders of an answer, of MaxUDP each.
const (
	maxPrepared = 512
	maxOrders   = 16
)

// idBytes is where a message begins that has nothing to do with who asks.
const idBytes = 2

// keyOf is what an answer depends on: who asks, and all of the question but its number.
func (p *prepared) keyOf(tenant string, question []byte) []byte {
	p.key = append(append(append(p.key[:0], tenant...), 0), question[min(idBytes, len(question)):]...)
	return p.key
}

// find returns the answer to a question if it need not be made.
func (p *prepared) find(version uint64, tenant string, question []byte) []byte {
	if p.version != version {
		p.version = version
		clear(p.answers)
	}
	orders := p.answers[string(p.keyOf(tenant, question))]
	if len(orders) == 0 || len(orders) < cap(orders) {
		return nil
	}
	answer := append([]byte(nil), orders[rand.IntN(len(orders))]...)
	copy(answer, question[:idBytes])
	return answer
}

// keep keeps an answer that has some records. An answer that names only some of very many
// endpoints names others every time.
func (p *prepared) keep(version uint64, tenant string, question, answer []byte, records int) {
	if records == 0 || records >= maxAddresses || p.version != version {
		return
	}
	key := p.keyOf(tenant, question)
	orders, known := p.answers[string(key)]
	if !known {
		if p.answers == nil || len(p.answers) >= maxPrepared {
			p.answers = map[string][][]byte{}
		}
		orders = make([][]byte, 0, ordersOf(records))
	}
	p.answers[string(key)] = append(orders, answer)
}

// ordersOf is how many orders of so many records are kept.
func ordersOf(records int) int {
	if records == 1 {
		return 1
	}
	return maxOrders
}
