package netctl

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/urfave/cli/v3"
	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Formats of --output.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
	formatCSV   = "csv"

	formatQuiet = "quiet" // of --quiet: bare names
)

// Formats of lists, and of single documents.
var (
	listFormats     = []string{formatTable, formatWide, formatJSON, formatYAML, formatName, formatCSV}
	documentFormats = []string{formatJSON, formatYAML}
)

// outputFlag returns --output for a choice of formats.
func outputFlag(formats []string) cli.Flag {
	choice := "one of " + strings.Join(formats, ", ")
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "format, " + choice,
		Validator: func(chosen string) error {
			if !slices.Contains(formats, chosen) {
				return errors.New("must be " + choice)
			}
			return nil
		}}
}

// format returns the format of the flags: --output, else --json, else --quiet.
func (s *session) format() string {
	switch chosen := s.cmd.String("output"); {
	case chosen != "":
		return chosen
	case s.cmd.Bool("json"):
		return formatJSON
	case s.cmd.Bool("quiet"):
		return formatQuiet
	}
	return formatTable
}

// column is one column of a listing.
type column struct {
	heading string
	cell    func(contivmodel.Object) string
}

// columns turns fields into columns, with the object's own formats of cells.
func (c *call) columns(fields []contivmodel.Field) []column {
	columns := make([]column, len(fields))
	for i, f := range fields {
		show, ok := c.object.cells[f.Name]
		if !ok {
			show = plain
		}
		columns[i] = column{f.Heading, func(o contivmodel.Object) string { return printable(show(f.Value(o))) }}
	}
	return columns
}

// plain formats a value unchanged; lists are joined by commas.
func plain(value any) string {
	if items, ok := value.([]string); ok {
		return strings.Join(items, ",")
	}
	return fmt.Sprint(value)
}

// bracketed formats a list in brackets.
func bracketed(value any) string { return fmt.Sprint(value) }

// printable replaces characters that control the terminal in stored texts.
func printable(text string) string { return strings.Map(steering, text) }

// steering returns a question mark for characters that control terminals, or the direction of text.
func steering(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
		return '?'
	}
	return r
}

// print prints objects in the format of the flags.
func (c *call) print(objects []contivmodel.Object, columns []column) error {
	format := c.format()
	switch format {
	case formatJSON, formatYAML:
		return c.printDocument(objects)
	case formatQuiet, formatName:
		return c.printNames(objects, format == formatName)
	case formatWide:
		wide, err := c.wideColumns(objects)
		if err != nil {
			return err
		}
		columns = append(slices.Clone(columns), wide...)
	}
	rows := make([][]string, len(objects))
	for i, o := range objects {
		rows[i] = cells(o, columns)
	}
	return c.printRows(headings(columns), rows)
}

// printRows prints a table, or the same as comma-separated values.
func (s *session) printRows(headings []string, rows [][]string) error {
	if s.format() == formatCSV {
		return csv.NewWriter(s.out).WriteAll(s.headed(headings, rows))
	}
	return s.printTable(headings, rows)
}

// printDocument prints one JSON value, or the same as YAML.
func (s *session) printDocument(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fault.New(fault.Internal, "answer of the server: %w", err)
	}
	if s.format() == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fault.New(fault.Internal, "answer of the server: %w", err)
		}
		_, err = s.out.Write(text)
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return fault.New(fault.Internal, "answer of the server: %w", err)
	}
	_, err = fmt.Fprintln(s.out, indented.String())
	return err
}

// printNames prints one name per line: bare, or as type/key.
func (c *call) printNames(objects []contivmodel.Object, full bool) error {
	for _, o := range objects {
		name := nameOf(o)
		if full {
			name = fullName(o.ModelType(), o.ModelKey())
		}
		if _, err := fmt.Fprintln(c.out, printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// nameOf returns the last part of an object's key.
func nameOf(o contivmodel.Object) string {
	keys := contivmodel.KindOf(o).KeyFields()
	return fmt.Sprint(keys[len(keys)-1].Value(o))
}

// fullName returns type and key: network/blue:web.
func fullName(typ, key string) string { return typ + "/" + key }

// printTable prints columns padded with spaces, at least two apart.
func (s *session) printTable(headings []string, rows [][]string) error {
	var padded bytes.Buffer
	w := tabwriter.NewWriter(&padded, 0, 0, 2, ' ', 0)
	for _, row := range s.headed(headings, rows) {
		fmt.Fprintln(w, strings.Join(row, "\t")) // writes to memory do not fail
	}
	w.Flush()
	for line := range strings.Lines(padded.String()) {
		if _, err := fmt.Fprintln(s.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// headed adds the headings above rows, unless the flags disable them, and in tables a line of dashes below them.
func (s *session) headed(headings []string, rows [][]string) [][]string {
	switch {
	case s.cmd.Bool("no-headers"):
		return rows
	case s.format() == formatCSV:
		return append([][]string{headings}, rows...)
	}
	return append([][]string{headings, underlines(headings)}, rows...)
}

// underlines returns the row of dashes below headings.
func underlines(headings []string) []string {
	dashes := make([]string, len(headings))
	for i, heading := range headings {
		dashes[i] = strings.Repeat("-", len(heading))
	}
	return dashes
}

func headings(columns []column) []string {
	names := make([]string, len(columns))
	for i, col := range columns {
		names[i] = col.heading
	}
	return names
}

func cells(o contivmodel.Object, columns []column) []string {
	texts := make([]string, len(columns))
	for i, col := range columns {
		texts[i] = col.cell(o)
	}
	return texts
}
