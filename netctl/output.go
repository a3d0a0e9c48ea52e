package netctl

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Formats of --output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
	formatCSV   = "csv"

	formatQuiet = "quiet" // of --quiet: bare names
)

// Formats of lists, and of single documents.
var (
	listFormats     = []string{formatTable, formatJSON, formatYAML, formatName, formatCSV}
	documentFormats = []string{formatJSON, formatYAML}
)

// outputFlag is --output for a choice of formats.
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

// format is what the flags ask for: --output, else --json, else --quiet.
func (c *call) format() string {
	switch chosen := c.cmd.String("output"); {
	case chosen != "":
		return chosen
	case c.cmd.Bool("json"):
		return formatJSON
	case c.cmd.Bool("quiet"):
		return formatQuiet
	}
	return formatTable
}

// column is one column of a listing.
type column struct {
	heading string
	cell    func(contivmodel.Object) string
}

// columns turns fields into columns, with the cells the object wants.
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

// plain shows a value as it is; lists are joined by commas.
func plain(value any) string {
	if items, ok := value.([]string); ok {
		return strings.Join(items, ",")
	}
	return fmt.Sprint(value)
}

// bracketed shows a list in brackets.
func bracketed(value any) string { return fmt.Sprint(value) }

// printable keeps what others have stored from steering the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

// print writes objects in the format the flags ask for.
func (c *call) print(objects []contivmodel.Object, columns []column) error {
	switch format := c.format(); format {
	case formatJSON, formatYAML:
		return c.printDocument(objects)
	case formatQuiet, formatName:
		return c.printNames(objects, format == formatName)
	case formatCSV:
		return c.printCSV(objects, columns)
	}
	return printTable(c.out, objects, columns, !c.cmd.Bool("no-headers"))
}

// printDocument writes one JSON value, or the same as YAML.
func (c *call) printDocument(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fault.New(fault.Internal, "answer of the server: %w", err)
	}
	if c.cmd.String("output") == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fault.New(fault.Internal, "answer of the server: %w", err)
		}
		_, err = c.out.Write(text)
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return fault.New(fault.Internal, "answer of the server: %w", err)
	}
	_, err = fmt.Fprintln(c.out, indented.String())
	return err
}

// printNames writes one name a line: bare, or as type/key.
func (c *call) printNames(objects []contivmodel.Object, full bool) error {
	keys := c.kind.KeyFields()
	for _, o := range objects {
		name := fmt.Sprint(keys[len(keys)-1].Value(o))
		if full {
			name = c.kind.Type + "/" + o.ModelKey()
		}
		if _, err := fmt.Fprintln(c.out, printable(name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) printCSV(objects []contivmodel.Object, columns []column) error {
	w := csv.NewWriter(c.out)
	if !c.cmd.Bool("no-headers") {
		if err := w.Write(headings(columns)); err != nil {
			return err
		}
	}
	for _, o := range objects {
		if err := w.Write(cells(o, columns)); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// printTable writes space-padded columns, at least two blanks apart, under
// their headings and a row of dashes.
func printTable(out io.Writer, objects []contivmodel.Object, columns []column, withHeadings bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells []string) { fmt.Fprintln(w, strings.Join(cells, "\t")) } // errors stay with w until Flush
	if withHeadings {
		names := headings(columns)
		dashes := make([]string, len(names))
		for i, name := range names {
			dashes[i] = strings.Repeat("-", len(name))
		}
		row(names)
		row(dashes)
	}
	for _, o := range objects {
		row(cells(o, columns))
	}
	return w.Flush()
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
