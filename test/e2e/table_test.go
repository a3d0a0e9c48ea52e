package e2e

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table is printed with a row for each flow.
type table struct {
	head string
	rows [][]string
}

func (t *table) add(head string, column []string) {
	t.head += "\t" + head
	for i, cell := range column {
		t.rows[i] = append(t.rows[i], cell)
	}
}

func (t table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, t.head)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return b.String()
}
