// Package checkup checks the health of a cluster, or of a machine that is to join one. It has three parts, each in
// a file of its own:
//
//	cluster.go  the reports of the netmasters, and of the agent of every node
//	host.go     this machine, before the daemons are installed on it
//	probe.go    traffic between two namespaces of this node
//
// Every check prints one line: what was checked, what was found and, if there is a problem, how to repair it.
package checkup

import "strings"

// Result is the outcome of one check.
type Result struct {
	Name   string // what was checked: "agent n1"
	Detail string // what was found
	Hint   string // how to repair it; empty: no problem
}

// OK reports whether there is no problem.
func (r Result) OK() bool { return r.Hint == "" }

// Report is called with each result.
type Report func(Result)

// check reports the result of one check, with hint if it failed, and returns whether it succeeded.
func (report Report) check(name, hint, detail string, err error) bool {
	r := Result{Name: name, Detail: detail}
	if err != nil {
		r.Detail, r.Hint = oneLine(err.Error()), hint
	}
	report(r)
	return err == nil
}

// oneLine returns a text in one line: joined errors are lines, and a check is one.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
