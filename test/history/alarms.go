package history

import (
	"os"
	"slices"
	"strings"
)

// alarming are words that no netmaster may log: repairs, since every request must keep intent and state
// consistent, and defects.
var alarming = []string{"repaired:", "cannot be repaired", "plan panicked", "corrupt"}

// fatal are words after which Go's runtime prints a report with the location.
var fatal = []string{"panic:", "fatal error:", "DATA RACE"}

// reportLines is how many lines of such a report are shown: the first stack, and for a data race the second one.
const reportLines = 40

// Alarms returns the alarming lines of all logs.
func (c *Cluster) Alarms() (lines []string, err error) {
	for _, n := range c.nodes {
		text, err := os.ReadFile(c.logFile(n))
		if err != nil {
			return nil, err
		}
		for _, alarm := range alarms(string(text)) {
			lines = append(lines, n.name+": "+alarm)
		}
	}
	return lines, nil
}

// alarms returns the alarming lines of a log, the fatal ones with their reports.
func alarms(log string) (found []string) {
	lines := strings.Split(log, "\n")
	for i := 0; i < len(lines); i++ {
		has := func(word string) bool { return strings.Contains(lines[i], word) }
		switch {
		case slices.ContainsFunc(fatal, has):
			end := min(i+reportLines, len(lines))
			found = append(found, strings.TrimSpace(strings.Join(lines[i:end], "\n")))
			i = end - 1
		case slices.ContainsFunc(alarming, has):
			found = append(found, strings.TrimSpace(lines[i]))
		}
	}
	return found
}
