package ledger

import (
	"bytes"
	"sync"
)

// remembering is a Reader that keeps what values were decoded to.
type remembering interface{ decodings() decodings }

// decodings are such values. Each is good as long as the key has the bytes that it was made of.
type decodings interface {
	known(key string, from []byte) (value any, ok bool)
	keep(key string, from []byte, value any)
}

// parsed is a value with what it was decoded to.
type parsed struct {
	from  []byte
	value any
}

// ofPlan are those of one plan.
type ofPlan map[string]parsed

func (m ofPlan) known(key string, from []byte) (any, bool) {
	p, ok := m[key]
	return p.value, ok && bytes.Equal(p.from, from)
}

func (m ofPlan) keep(key string, from []byte, value any) { m[key] = parsed{from, value} }

// ofViews are those of all views of a ledger, and of the plans that are committed in groups.
type ofViews struct {
	mu  sync.RWMutex
	all ofPlan
}

// mostDecoded bounds the memory that they take; at the limit all are forgotten.
const mostDecoded = 4096

func (m *ofViews) known(key string, from []byte) (any, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.all.known(key, from)
}

func (m *ofViews) keep(key string, from []byte, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) >= mostDecoded {
		clear(m.all)
	}
	m.all.keep(key, from, value)
}
