package nameserver

import "time"

// State says how the name server of a node is.
type State struct {
	On        bool     `json:"on"`
	Listening bool     `json:"listening"` // at all places
	Upstream  []string `json:"upstream"`  // who is asked for all other names
	Problem   string   `json:"problem"`   // why the last question to them had no answer; empty: it had
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
			s.Problem = f.lastProblem()
		}
	}
	return s
}

// note keeps why a question had no answer, or forgets it.
func (f *Forwarder) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.problem = ""; err != nil {
		f.problem = err.Error()
	}
}

// tellPause is the time between two messages about questions without an answer: how many there are is up to who asks.
const tellPause = time.Minute

// tellNow tells whether such a message is due.
func (f *Forwarder) tellNow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := time.Since(f.told) >= tellPause
	if due {
		f.told = time.Now()
	}
	return due
}

func (f *Forwarder) lastProblem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}
