package netctl

import (
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/contiv/netplugin/contivmodel"
)

var explainTool = tool{
	name: "explain", usage: "Tell the meaning and the rules of a kind of object or of a field", args: "KIND[.FIELD]", run: doExplain, local: true,
	more: "Says what the model of this netctl has; a server of another version may have more fields.",
}

func doExplain(s *session) error {
	word, name, hasField := strings.Cut(s.cmd.Args().First(), ".")
	kind, err := findKind(word)
	if err != nil {
		return err
	}
	if !hasField {
		return explainKind(s, kind)
	}
	var known []string
	for _, f := range kind.Fields {
		if strings.EqualFold(f.Name, name) {
			_, err := fmt.Fprintf(s.out, "%s.%s: %s\n", kind.Type, f.Name, strings.Join(append([]string{f.Doc, typeOf(f)}, rulesOf(kind, f)...), "\n  "))
			return err
		}
		known = append(known, f.Name)
	}
	return usageError{message: fmt.Sprintf("%s has no field %q", kind.Type, name) + didYouMean(name, known)}
}

// explainKind lists the fields of a kind.
func explainKind(s *session, kind contivmodel.Kind) error {
	fmt.Fprintf(s.out, "%s: %s\n\nREST: /api/v1/%s/KEY/, key %s\nNames: %s\n\n", kind.Type, kind.Doc, kind.Segment,
		keyOf(kind), strings.Join(unique(kindNames(kind)), ", ")) // the buffer retains an error
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, f := range kind.Fields {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, typeOf(f), strings.Join(append([]string{f.Doc}, rulesOf(kind, f)...), "; "))
	}
	return w.Flush()
}

// keyOf returns the form of the key: tenantName:networkName.
func keyOf(kind contivmodel.Kind) string {
	var names []string
	for _, f := range kind.KeyFields() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ":")
}

func typeOf(f contivmodel.Field) string {
	switch f.Kind() {
	case reflect.Int:
		return "number"
	case reflect.Slice:
		return "list of texts"
	}
	return "text"
}

// rulesOf returns the declared rules of a field in words.
func rulesOf(kind contivmodel.Kind, f contivmodel.Field) []string {
	var rules []string
	add := func(when bool, format string, args ...any) {
		if when {
			rules = append(rules, fmt.Sprintf(format, args...))
		}
	}
	_, pattern := f.Pattern()
	number := f.Kind() == reflect.Int
	add(f.KeyPart > 0 && f.KeyPart == len(kind.KeyFields()), "metadata.name in documents")
	add(f.KeyPart > 0 && f.KeyPart < len(kind.KeyFields()), "metadata.%s in documents", strings.TrimSuffix(f.Name, "Name"))
	add(f.Required, "required")
	add(f.Unless != "", "required without %s", f.Unless)
	add(len(f.OneOf) > 0, "one of %s", strings.Join(f.OneOf, ", "))
	add(pattern != "", "%s", pattern)
	add(number && f.Max > 0, "%d to %d", f.Min, f.Max)
	add(!number && f.Max > 0, "at most %d bytes", f.Max)
	add(f.Default != "", "default %s", f.Default)
	add(f.KeyPart == 0 && !f.Changeable, "cannot be changed later")
	return rules
}

// unique removes duplicates and retains the order.
func unique(words []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, word := range words {
		if !seen[word] {
			kept = append(kept, word)
		}
		seen[word] = true
	}
	return kept
}
