package nameserver

import "time"

// State is the state of a node's name server, for inspection.
type State struct {
	On        bool     `json:"on"`
	Listening bool     `json:"listening"` // at all places
	Upstream  []string `json:"upstream"`  // the servers for all other names
	Problem   string   `json:"problem"`   // why the last query to them had no answer; empty: it was answered
	// PassedOver is why the servers before the one that answered failed; empty: the first one answered, or none.
	PassedOver string `json:"passedOver"`
}

// State returns the present state.
func (n *Node) State() State {
	s := State{On: len(n.servers) > 0, Listening: len(n.servers) > 0, Upstream: []string{}}
	for _, server := range n.servers {
		s.Listening = s.Listening && server.listening.Load()
		if f := server.Forwarder; f != nil {
			s.Upstream = s.Upstream[:0]
			for _, address := range f.upstream() {
				s.Upstream = append(s.Upstream, address.String())
			}
			s.Problem, s.PassedOver = f.lastProblem()
		}
	}
	return s
}

// note records why a query had no answer, or which servers failed before it was answered, in place of the previous
// query's.
func (f *Forwarder) note(failure, passed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problem, f.passed = "", ""
	switch {
	case failure != nil:
		f.problem = failure.Error()
	case passed != nil:
		f.passed = passed.Error()
	}
}

// tellPause is the minimum time between two log lines with the same message: clients determine the number of
// queries.
const tellPause = time.Minute

// Log messages about upstream servers, each at most once per tellPause.
const (
	noAnswer   = "name servers of others give no answer: told once a minute"
	passedOver = "name servers of others are passed over, which takes its time: told once a minute"
)

// shouldLog reports whether a message may be logged now, and if so records that it is.
func (f *Forwarder) shouldLog(message string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	told, ever := f.told[message]
	due := !ever || time.Since(told) >= tellPause
	if due {
		f.told[message] = time.Now()
	}
	return due
}

func (f *Forwarder) lastProblem() (problem, passed string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem, f.passed
}
