package nameserver

import "time"

// State says how the name server of a node is.
type State struct {
	On        bool     `json:"on"`
	Listening bool     `json:"listening"` // at all places
	Upstream  []string `json:"upstream"`  // who is asked for all other names
	Problem   string   `json:"problem"`   // why the last question to them had no answer; empty: it had
	// PassedOver is why those before who answered it did not; empty: the first one did, or nobody.
	PassedOver string `json:"passedOver"`
}

// State returns what is so now.
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

// note keeps why a question had no answer, or else who was passed over for it, and forgets those of the one before.
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

// tellPause is the time between two of a kind of message about questions: how many there are is up to who asks.
const tellPause = time.Minute

// What the log says of name servers of others, no more than once in that time.
const (
	noAnswer   = "name servers of others give no answer: told once a minute"
	passedOver = "name servers of others are passed over, which takes its time: told once a minute"
)

// tellNow tells whether such a message is due.
func (f *Forwarder) tellNow(message string) bool {
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
