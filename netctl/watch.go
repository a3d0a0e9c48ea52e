package netctl

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
)

// watch prints the objects of the call's kind and then each change, until it is interrupted. With a key it watches
// one object, whose tenant is in the key: the flag may name another tenant, or all.
func (c *call) watch(key string) error {
	tenant := ""
	switch {
	case !scoped(c.kind):
	case key != "":
		tenant, _, _ = strings.Cut(key, ":")
	case !c.cmd.Bool("all"):
		tenant = c.tenant()
	}
	if tenant != "" {
		if err := c.requireTenant(tenant); err != nil {
			return err
		}
	}
	w := &watcher{call: c}
	return c.client.Watch(c.ctx, c.kind, tenant, func(e client.Event) error {
		switch {
		case e.Type == client.Bookmark:
			return w.synced()
		case key != "" && e.Key != key:
			return nil
		}
		return w.event(e)
	})
}

// watcher prints events. Those of the initially existing objects are collected, to compute the widths of the
// columns.
type watcher struct {
	*call
	present []client.Event
	live    bool
	widths  []int
}

// synced prints the initially existing objects.
func (w *watcher) synced() error {
	if w.live {
		return nil
	}
	w.live = true
	if w.cmd.Bool("watch-only") {
		w.present = nil
	}
	if err := w.print(w.present...); err != nil {
		return err
	}
	return w.flush()
}

func (w *watcher) event(e client.Event) error {
	if !w.live {
		w.present = append(w.present, e)
		return nil
	}
	if err := w.print(e); err != nil {
		return err
	}
	return w.flush()
}

// print prints events in the format of the flags: one row, line or document each.
func (w *watcher) print(events ...client.Event) error {
	switch format := w.format(); format {
	case formatJSON, formatYAML, formatQuiet, formatName:
		for _, e := range events {
			if err := w.printOne(format, e); err != nil {
				return err
			}
		}
		return nil
	}
	return w.printRows(events)
}

func (w *watcher) printOne(format string, e client.Event) error {
	var text []byte
	var err error
	document := map[string]any{"type": e.Type, "revision": e.Revision, "object": e.Object}
	switch format {
	case formatJSON:
		text, err = json.Marshal(document)
	case formatYAML:
		text, err = yaml.Marshal(document)
		text = append([]byte("---\n"), strings.TrimSuffix(string(text), "\n")...)
	default:
		return w.printNames([]contivmodel.Object{e.Object}, format == formatName)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.out, "%s\n", text)
	return err
}

// printRows prints a table that grows: the headings once, with the widths of the first rows for all.
func (w *watcher) printRows(events []client.Event) error {
	objects := make([]contivmodel.Object, len(events))
	for i, e := range events {
		objects[i] = e.Object
	}
	columns := w.fullColumns()
	if w.format() == formatWide {
		wide, err := w.wideColumns(objects)
		if err != nil {
			return err
		}
		columns = append(columns, wide...)
	}
	rows := make([][]string, len(events))
	for i, e := range events {
		rows[i] = append([]string{e.Type}, cells(e.Object, columns)...)
	}
	lines := rows
	if names := append([]string{"Event"}, headings(columns)...); w.widths == nil {
		lines = w.headed(names, rows)
		w.widths = widths(append([][]string{names, {client.Modified}}, rows...))
	}
	if w.format() == formatCSV {
		return csv.NewWriter(w.out).WriteAll(lines)
	}
	for _, line := range lines {
		if err := w.printLine(line); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints one row of a table whose later rows are not known yet.
func (w *watcher) printLine(cells []string) error {
	var line strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&line, "%-*s  ", w.widths[i], cell)
	}
	_, err := fmt.Fprintln(w.out, strings.TrimRight(line.String(), " "))
	return err
}

// widths returns the widths of the widest cells; the first row has all columns.
func widths(rows [][]string) []int {
	widest := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widest[i] = max(widest[i], utf8.RuneCountInString(cell))
		}
	}
	return widest
}
