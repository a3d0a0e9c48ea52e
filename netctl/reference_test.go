package netctl

import (
	stdflag "flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

var updateFiles = stdflag.Bool("update", false, "write docs/netctl.md and the transcripts in testdata anew")

const referencePreface = `# netctl

Written by ` + "`go test ./netctl -update`" + ` from the tables of commands in ` + "`netctl/objects.go`" + ` and ` + "`netctl/tools.go`" + `.
What commands print is recorded in ` + "`netctl/testdata`" + `.

Flags and arguments may be mixed; one dash and two mean the same; short flags are not
bundled. The same short flag can mean different things in different commands. ` + "`rm`" + ` is
also ` + "`delete`" + `, ` + "`ls`" + ` is also ` + "`list`" + `. Results go to stdout, messages to stderr.

| Exit code | Meaning |
|---|---|
| 0 | done, or nothing to do |
| 1 | wrong arguments or flags, unusable netmaster URL |
| 2 | no netmaster could be reached, or it did not answer in time |
| 3 | the server refused the request |
| 4 | the result could not be written, or a local file not be used |
| 5 | not found |
| 6 | conflict: exists, in use, cannot change, exhausted; the message names what stands in the way |
| 7 | not allowed |
| 9 | check: some checks failed; login: it failed at some of several servers |
| 130, 143 | ended by Ctrl-C, by SIGTERM |
`

// reference returns the page of all commands.
func reference() string {
	var page strings.Builder
	page.WriteString(referencePreface)
	root := rootCommand(nil, io.Discard, io.Discard)
	fmt.Fprint(&page, "\n## Flags of every command\n\n", flagTable(root.Flags))
	for _, cmd := range root.Commands {
		if cmd.Hidden {
			continue
		}
		if len(cmd.Commands) == 0 {
			page.WriteString(section("##", "netctl "+cmd.Name, cmd))
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n", strings.Join(cmd.Names(), ", "), cmd.Usage)
		if cmd.Description != "" {
			page.WriteString("\n" + cmd.Description + "\n")
		}
		for _, verb := range cmd.Commands {
			page.WriteString(section("###", "netctl "+cmd.Name+" "+verb.Name, verb))
		}
	}
	return page.String()
}

// section returns the text of the page about one command.
func section(mark, name string, cmd *cli.Command) string {
	text := fmt.Sprintf("\n%s `%s`\n\n%s.\n", mark, strings.TrimSpace(name+" "+cmd.ArgsUsage), cmd.Usage)
	if cmd.Description != "" {
		text += "\n" + cmd.Description + "\n"
	}
	if flags := flagTable(cmd.Flags); flags != "" {
		text += "\n" + flags
	}
	return text
}

func flagTable(flags []cli.Flag) string {
	table := "| Flag | Default | Meaning |\n|---|---|---|\n"
	rows := 0
	for _, f := range flags {
		shown, ok := f.(cli.DocGenerationFlag)
		if hidden, can := f.(cli.VisibleFlag); !ok || can && !hidden.IsVisible() {
			continue
		}
		value := strings.Trim(shown.GetValue(), `"`)
		if value == "false" || value == "0" || value == "[]" {
			value = ""
		}
		usage := shown.GetUsage()
		if env := shown.GetEnvVars(); len(env) > 0 {
			usage += "; environment " + strings.Join(env, ", ")
		}
		rows++
		table += fmt.Sprintf("| `--%s` | %s | %s |\n", strings.Join(f.Names(), "`, `-"), value, usage)
	}
	if rows == 0 {
		return ""
	}
	return table
}

func TestReferenceIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "docs", "netctl.md")
	if *updateFiles {
		if err := os.WriteFile(path, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := os.ReadFile(path); err != nil || string(page) != reference() {
		t.Errorf("%s is out of date (%v); write it anew with -update", path, err)
	}
}

// Every field and argument of the table must be one of the model.
func TestTheTableFitsTheModel(t *testing.T) {
	for i := range objects {
		o := &objects[i]
		for j := range o.verbs {
			v := &o.verbs[j]
			kind := kindFor(o, v)
			if o.typ != "" && kind.Type == "" {
				t.Errorf("%s: no such type", o.name)
			}
			for _, f := range v.flags {
				if _, ok := kind.Field(f.field); !ok && f.field != "" {
					t.Errorf("%s %s --%s: %s has no field %s", o.name, v.name, f.names, kind.Type, f.field)
				}
			}
			for _, a := range v.args {
				if _, ok := kind.Field(a.field); !ok && kind.Type != "" {
					t.Errorf("%s %s: %s has no field %s", o.name, v.name, kind.Type, a.field)
				}
			}
			if (v.run.do == nil) || (v.done == "") != (v.name == "ls" || strings.HasSuffix(v.name, "-ls") || strings.HasSuffix(v.name, "inspect") || v.name == "info") {
				t.Errorf("%s %s: a verb that changes something says what it has done, others do not", o.name, v.name)
			}
		}
	}
}
