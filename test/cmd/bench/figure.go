package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// figure is a line of the table: a measured value, its reference and the goal.
type figure struct {
	Name      string
	Value     string
	Reference string
	Ratio     string
	Goal      string
	Met       bool
}

// printFigures prints all figures, and returns an error if one of them misses its goal.
func printFigures(out io.Writer, figures []figure) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFIGURE\tMEASURED\tREFERENCE\tRATIO\tGOAL\t")
	var missed []string
	for _, f := range figures {
		verdict := "met"
		if !f.Met {
			verdict = "MISSED"
			missed = append(missed, f.Name)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.Value, f.Reference, f.Ratio, f.Goal, verdict)
	}
	err := w.Flush()
	if len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d goals are missed: %s", len(missed), len(figures), strings.Join(missed, "; ")))
	}
	return err
}
