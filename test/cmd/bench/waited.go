package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// share is what the scheduler says of a thread: how long it has run, and how long it was ready to and
// had no processor.
type share struct{ ran, waited time.Duration }

// threads are those of this process and of all that it has started, with their shares.
type threads map[string]share

// ownThreads reads them. What ends meanwhile is left out.
func ownThreads() threads { return threadsOf(func(string) bool { return true }) }

// threadsNamed reads those of the processes of a name.
func threadsNamed(name string) threads {
	return threadsOf(func(pid string) bool {
		text, err := os.ReadFile("/proc/" + pid + "/comm")
		return err == nil && strings.TrimSpace(string(text)) == name
	})
}

// threadsOf reads those of some processes, of this one and all that it has started; inside a node, where who
// started it is not seen, of all that there are.
func threadsOf(counts func(pid string) bool) threads {
	children := map[string][]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 { // its state, its parent
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

// add reads the threads of a process.
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

// effort is the processor time that processes of some names take while something is measured. Unlike
// the time that passes, it does not depend on what else runs on the machine.
type effort struct {
	names  []string
	before map[string]threads
	spent  map[string]time.Duration
}

func newEffort(names ...string) *effort {
	return &effort{names, map[string]threads{}, map[string]time.Duration{}}
}

// begin counts from now on, until end.
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

// each is the mean over so many changes.
func (e *effort) each(name string, changes int) time.Duration {
	return e.spent[name] / time.Duration(max(1, changes))
}

// figures tells the means.
func (e *effort) figures(what string, changes int) (list []figure) {
	for _, name := range e.names {
		list = append(list, figure{Name: "of it processor time of " + name + what, Value: inMS(e.each(name, changes)), Reference: "none", Ratio: "-", Goal: "none", Met: true})
	}
	return list
}

// since is what has been added to the shares since before. Threads that have begun since count.
func (now threads) since(before threads) (sum share) {
	for task, s := range now {
		sum.ran += s.ran - before[task].ran
		sum.waited += s.waited - before[task].waited
	}
	return sum
}

// String tells how much of the time in which threads could have run they waited for a processor.
func (s share) String() string {
	return fmt.Sprintf("waited %.0f %% of the time for a processor", 100*float64(s.waited)/float64(max(1, s.ran+s.waited)))
}
