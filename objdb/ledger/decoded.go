package ledger

import (
	"bytes"
	"sync"
)

// remembering is a Reader that caches decoded values.
type remembering interface{ decodings() decodings }

// decodings are cached values. Each is valid as long as the key has the bytes that it was decoded from.
type decodings interface {
	known(key string, from []byte) (value any, ok bool)
	keep(key string, from []byte, value any)
}

// parsed is a decoded value with its source.
type parsed struct {
	from  []byte
	value any
}

// ofPlan are the decoded values of one plan.
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

// mostDecoded limits their memory; at the limit all are dropped.
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
