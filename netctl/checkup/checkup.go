// Package checkup finds out whether a cluster, or a machine that is to join
// one, is in order. It looks at three things, each in a file of its own:
//
//	cluster.go  what the netmasters say, and the agent of every node
//	host.go     this machine, before the daemons are installed on it
//	probe.go    traffic between two namespaces of this node
//
// Every check is one line: what was looked at, what was found, and, if that is
// not well, what to do about it.
package checkup

// Result is the outcome of one check.
type Result struct {
	Name   string // what was looked at: "agent n1"
	Detail string // what was found
	Hint   string // what to do about it; empty: all is well
}

// OK tells whether all is well.
func (r Result) OK() bool { return r.Hint == "" }

// Report takes results as they come.
type Report func(Result)

// check reports what one check found, or what to do about its failure.
func (report Report) check(name, hint, detail string, err error) bool {
	r := Result{Name: name, Detail: detail}
	if err != nil {
		r.Detail, r.Hint = err.Error(), hint
	}
	report(r)
	return err == nil
}
