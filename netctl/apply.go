package netctl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netctl/manifest"
	"github.com/contiv/netplugin/netctl/udiff"
)

const documentsText = "Documents are YAML or JSON, several in a file if need be: kind, metadata (tenant, name; for rules policy too) and " +
	"spec, whose fields `netctl explain KIND` lists. Objects as the REST interface and `-o json` or `-o yaml` show them " +
	"are understood too. Objects without tenant belong to the one of --tenant; other fields that are left out " +
	"have the defaults of the command that creates the object. apiVersion, labels and annotations are ignored. " +
	"Of a folder, the files that end in .yaml, .yml or .json are read."

var applyTool = tool{
	name: "apply", usage: "Make objects as files describe them: all, or none if one is refused", run: doApply,
	flags: func() []cli.Flag { return append(documentFlags(), changeFlags()...) },
	more:  "The server creates what is missing, changes what differs and may change, and leaves the rest alone. " + documentsText,
}

var deleteTool = tool{
	name: "delete", usage: "Delete an object, or those that files describe: all, or none if one is refused", args: "[KIND] [NAME]", run: doDelete,
	flags: func() []cli.Flag {
		return append(append(documentFlags(), changeFlags()...),
			&cli.BoolFlag{Name: "ignore-not-found", Usage: "succeed if there is nothing to delete"})
	},
	more: documentsText,
}

var diffTool = tool{
	name: "diff", usage: "Show what apply would change", run: doDiff, flags: documentFlags, misuse: exitTrouble,
	more: fmt.Sprintf("Prints the differences between the objects there are and those of the files in the unified format. "+
		"The exit code is 0 if there are none, %d if there are some, and a higher one after an error. A password in a file counts as one, as netmaster does not tell its own: leave it out, or write ***. %s", exitDiffers, documentsText),
}

var exportTool = tool{
	name: "export", usage: "Write all objects as documents for apply", run: doExport,
	flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.StringFlag{Name: "tenant", Aliases: []string{"t"}, OnlyOnce: true, Usage: "only this tenant and what belongs to it"},
			outputFlag(documentFormats),
		}
	},
	more: "Applied to an empty cluster, the result makes the same objects, when passwords, which are *** in it, are put in their place. " +
		"Rules are refused there whose peer group or network is gone, or that are for one address of their group until an endpoint has it. " +
		"Objects are in an order in which they can be created one by one.",
}

func documentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, TakesFile: true, Usage: "file or folder of documents, - for standard input; may be repeated"},
		tenantFlag(),
	}
}

func changeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Usage: "let the server check everything and say what would happen, change nothing"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing on success"},
		outputFlag([]string{formatName, formatJSON, formatYAML}),
	}
}

// documents reads the files that the flags name.
func (s *session) documents() ([]manifest.Document, error) {
	paths := s.cmd.StringSlice("filename")
	if len(paths) == 0 {
		return nil, usageError{"--filename required", s.cmd}
	}
	reader := manifest.Reader{Kind: remembering(findKind), Tenant: s.tenant(), Stdin: s.in}
	var all []manifest.Document
	for _, path := range paths {
		documents, err := reader.Read(path)
		switch {
		case errors.As(err, new(*fs.PathError)):
			return nil, fileError{err}
		case err != nil:
			return nil, usageError{message: err.Error()}
		}
		all = append(all, documents...)
	}
	if err := fillDefaults(all); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, usageError{message: "no documents in " + fmt.Sprint(paths)}
	}
	return all, onlyOnce(all)
}

// onlyOnce refuses two documents of the same object, which are ambiguous.
func onlyOnce(documents []manifest.Document) error {
	seen := map[string]string{}
	for _, d := range documents {
		name := fullName(d.Object.ModelType(), d.Object.ModelKey())
		if first, again := seen[name]; again {
			return usageError{message: fmt.Sprintf("%s: %s is in %s already", d.Source, name, first)}
		}
		seen[name] = d.Source
	}
	return nil
}

func doApply(s *session) error {
	documents, err := s.documents()
	if err != nil {
		return err
	}
	var operations []client.Operation
	for _, d := range documents {
		operations = append(operations, client.ToApply(d.Object))
	}
	return s.apply(operations)
}

func doDelete(s *session) error {
	ignore := s.cmd.Bool("ignore-not-found")
	if s.cmd.Args().Present() {
		t, err := s.deleted()
		if err != nil {
			return err
		}
		err = s.apply([]client.Operation{{Op: contivmodel.OpDelete, Type: t.kind.Type, Key: t.key, IgnoreNotFound: ignore}})
		return s.absent(err, t.kind, t.key)
	}
	documents, err := s.documents()
	if err != nil {
		return err
	}
	var operations []client.Operation
	for _, d := range documents {
		operation := client.ToDelete(d.Object)
		operation.IgnoreNotFound = ignore
		operations = append(operations, operation)
	}
	return s.apply(operations)
}

// deleted returns the object that the arguments of delete name.
func (s *session) deleted() (target, error) {
	if s.cmd.IsSet("filename") {
		return target{}, usageError{message: "either KIND NAME or --filename, not both"}
	}
	t, err := s.targetOf(s.cmd.Args())
	if err == nil && t.key == "" {
		err = usageError{"NAME required", s.cmd}
	}
	return t, err
}

// apply sends operations to the server and prints the results.
func (s *session) apply(operations []client.Operation) error {
	applied, err := s.client.Apply(s.ctx, operations, s.cmd.Bool("dry-run"))
	format := s.format()
	switch {
	case err != nil:
		return err
	case format == formatQuiet:
		return nil
	case format == formatJSON || format == formatYAML:
		return s.printDocument(applied)
	}
	for _, r := range applied.Results {
		line := printable(fullName(r.Type, r.Key))
		if format != formatName {
			line += " " + printable(r.Result)
			if applied.DryRun {
				line += " (dry run)"
			}
		}
		if _, err := fmt.Fprintln(s.out, line); err != nil {
			return err
		}
	}
	return nil
}

func doDiff(s *session) error {
	documents, err := s.documents()
	if err != nil {
		return err
	}
	var outcome error
	for _, d := range documents {
		kind := contivmodel.KindOf(d.Object)
		present, object := "", d.Object
		live, err := s.client.Get(s.ctx, kind, d.Object.ModelKey())
		if err == nil {
			object = contivmodel.WithSecrets(object, live) // apply changes no secret that a document omits
			present, err = yamlText(live)
		} else if isAbsent(err) {
			err = nil
		}
		if err != nil {
			return err
		}
		wanted, err := yamlText(object)
		if err != nil {
			return err
		}
		name := fullName(kind.Type, d.Object.ModelKey())
		if secrets := contivmodel.SecretsIn(d.Object); len(secrets) > 0 && present != "" {
			outcome = outcomeCode(exitDiffers)
			if _, err := fmt.Fprintf(s.out, "%s: %s may differ: netmaster tells no secrets\n", name, strings.Join(secrets, ", ")); err != nil {
				return err
			}
		}
		if diff := udiff.Unified(name, name+" of "+d.Source, present, wanted); diff != "" {
			outcome = outcomeCode(exitDiffers)
			if _, err := fmt.Fprint(s.out, diff); err != nil {
				return err
			}
		}
	}
	return outcome
}

func yamlText(o contivmodel.Object) (string, error) {
	contivmodel.ApplyDefaults(o) // older servers store objects without defaults
	text, err := manifest.YAML(o)
	return string(text), err
}

func doExport(s *session) error {
	var all []contivmodel.Object
	tenant := s.tenant()
	if tenant != "" {
		if err := s.requireTenant(tenant); err != nil {
			return err
		}
	}
	for _, kind := range orderedKinds() {
		if _, ofTenants := kind.Field("tenantName"); tenant != "" && !ofTenants {
			continue // a caller that may read a tenant may lack the right to read those
		}
		objects, err := s.client.List(s.ctx, kind)
		if err != nil {
			return err
		}
		all = append(all, slices.DeleteFunc(objects, func(o contivmodel.Object) bool {
			return tenant != "" && tenantOf(o) != tenant
		})...)
	}
	if s.format() == formatJSON {
		documents := make([]any, len(all))
		for i, o := range all {
			documents[i] = manifest.FromObject(o)
		}
		return s.printDocument(documents)
	}
	for _, o := range all {
		text, err := manifest.YAML(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// tenantOf returns the tenant that an object is or belongs to; empty: none.
func tenantOf(o contivmodel.Object) string {
	f, ok := contivmodel.KindOf(o).Field("tenantName")
	if !ok {
		return ""
	}
	return fmt.Sprint(f.Value(o))
}
