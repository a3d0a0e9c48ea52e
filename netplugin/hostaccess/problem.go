package hostaccess

import (
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/fault"
)

// problem is why the last round did not succeed. Other goroutines may read it.
type problem struct {
	text   atomic.Pointer[string] // nil: the round succeeded
	logged bool
}

// note records the error of a round. Each problem is logged once; a fault.Unavailable is logged only when it occurs a
// second time.
func (p *problem) note(err error, log *logrus.Entry) {
	if err == nil {
		p.text.Store(nil)
		p.logged = false
		return
	}
	text := err.Error()
	again := p.String() == text
	if p.text.Store(&text); !again {
		p.logged = false
	}
	if !p.logged && (again || !fault.Is(err, fault.Unavailable)) {
		p.logged = true
		log.Warn(text)
	}
}

// String returns the text of the problem, or "".
func (p *problem) String() string {
	if text := p.text.Load(); text != nil {
		return *text
	}
	return ""
}
