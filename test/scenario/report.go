package scenario

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report counts checks and has the measured times.
type Report struct {
	Passed  int
	Failed  []string // the text of each failed check
	Timings []Timing
}

// Timing is a measured quantity: one value, or a distribution.
type Timing struct {
	Name   string
	Values []time.Duration
}

// check counts a statement as true or false and prints it.
func (s *Scenario) check(ok bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	mark := "ok  "
	if ok {
		s.report.Passed++
	} else {
		mark = "FAIL"
		s.report.Failed = append(s.report.Failed, text)
	}
	fmt.Fprintf(s.out, "   %s %s\n", mark, text)
}

// timing adds values to the quantity of that name.
func (s *Scenario) timing(name string, values ...time.Duration) {
	for i := range s.report.Timings {
		if t := &s.report.Timings[i]; t.Name == name {
			t.Values = append(t.Values, values...)
			return
		}
	}
	s.report.Timings = append(s.report.Timings, Timing{name, values})
}

// Percentile returns the smallest value that at least p percent do not exceed.
func Percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// WriteTo prints the table of timings and the count of checks.
func (r *Report) WriteTo(out io.Writer) (int64, error) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nMEASURED\tN\tP50\tP99")
	for _, t := range r.Timings {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", t.Name, len(t.Values), ms(Percentile(t.Values, 50)), ms(Percentile(t.Values, 99)))
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	for _, failed := range r.Failed {
		fmt.Fprintln(&text, "FAILED:", failed)
	}
	fmt.Fprintf(&text, "\n%d passed, %d failed\n", r.Passed, len(r.Failed))
	n, err := io.WriteString(out, text.String())
	return int64(n), err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func join(args []string) string { return strings.Join(args, " ") }
