package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// share has the scheduler's statistics of a thread: how long it has run, and how long it was runnable without a
// processor.
type share struct{ ran, waited time.Duration }

// threads are the threads of this process and of its descendants, with their shares.
type threads map[string]share

// ownThreads reads them. Threads that end meanwhile are skipped.
func ownThreads() threads { return threadsOf(func(string) bool { return true }) }

// threadsNamed reads those of the processes with a name.
func threadsNamed(name string) threads {
	return threadsOf(func(pid string) bool {
		text, err := os.ReadFile("/proc/" + pid + "/comm")
		return err == nil && strings.TrimSpace(string(text)) == name
	})
}

// threadsOf reads those of some processes among this one and its descendants; inside a node, where the parents are
// not visible, among all processes.
func threadsOf(counts func(pid string) bool) threads {
	children := map[string][]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 { // state, parent
			children[fields[1]] = append(children[fields[1]], filepath.Base(filepath.Dir(file)))
		}
	}
	root := os.Getpid()
	if os.Getppid() == 0 {
		root = 0
	}
	all := threads{}
	for left := []string{strconv.Itoa(root)}; len(left) > 0; left = left[1:] {
		left = append(left, children[left[0]]...)
		if counts(left[0]) {
			all.add(left[0])
		}
	}
	return all
}

// add adds the threads of a process.
func (t threads) add(pid string) {
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
	for _, task := range tasks {
		var s share
		if text, err := os.ReadFile(task); err == nil {
			if _, err := fmt.Sscan(string(text), &s.ran, &s.waited); err == nil {
				t[task] = s
			}
		}
	}
}

// effort is the processor time that processes with some names use during a measurement. Unlike elapsed time, it
// does not depend on other load on the machine.
type effort struct {
	names  []string
	before map[string]threads
	spent  map[string]time.Duration
}

func newEffort(names ...string) *effort {
	return &effort{names, map[string]threads{}, map[string]time.Duration{}}
}

// begin starts counting, until end.
func (e *effort) begin() {
	for _, name := range e.names {
		e.before[name] = threadsNamed(name)
	}
}

func (e *effort) end() {
	for _, name := range e.names {
		e.spent[name] += threadsNamed(name).since(e.before[name]).ran
	}
}

// each returns the mean per change.
func (e *effort) each(name string, changes int) time.Duration {
	return e.spent[name] / time.Duration(max(1, changes))
}

// figures returns the means.
func (e *effort) figures(what string, changes int) (list []figure) {
	for _, name := range e.names {
		list = append(list, figure{Name: "of it processor time of " + name + what, Value: inMS(e.each(name, changes)), Reference: "none", Ratio: "-", Goal: "none", Met: true})
	}
	return list
}

// since returns the increase of the shares since before, including threads started since then.
func (now threads) since(before threads) (sum share) {
	for task, s := range now {
		sum.ran += s.ran - before[task].ran
		sum.waited += s.waited - before[task].waited
	}
	return sum
}

// String returns the fraction of its runnable time that a thread waited for a processor.
func (s share) String() string {
	return fmt.Sprintf("waited %.0f %% of the time for a processor", 100*float64(s.waited)/float64(max(1, s.ran+s.waited)))
}
