package netctl

import (
	"fmt"
	"text/tabwriter"
)

// page is an output of several sections; after the first error nothing more is written.
type page struct {
	*session
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

// section prints lines of name and value under a title; nothing if there are no lines.
func (p *page) section(title string, lines [][2]string) {
	if len(lines) == 0 || p.err != nil {
		return
	}
	p.printf("\n%s:\n", title)
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s:\t%s\n", line[0], printable(line[1])) // Flush returns errors
	}
	if err := w.Flush(); p.err == nil {
		p.err = err
	}
}

// table prints a table under a title.
func (p *page) table(title string, headings []string, rows [][]string) {
	p.printf("\n%s:\n", title)
	if p.err == nil {
		p.err = p.printTable(headings, rows)
	}
}
