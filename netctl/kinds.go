package netctl

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
)

// orderedKinds returns the kinds, each after those that its objects refer to.
func orderedKinds() []contivmodel.Kind {
	var kinds []contivmodel.Kind
	for _, typ := range contivmodel.DependencyOrder() {
		kind, _ := contivmodel.KindByType(typ)
		kinds = append(kinds, kind)
	}
	return kinds
}

// kindNames returns all names of a kind: its type and segment, the command for it, its aliases, and the plural of
// each.
func kindNames(kind contivmodel.Kind) []string {
	names := []string{kind.Type, kind.Type + "s", kind.Segment}
	for _, o := range objects {
		if o.typ != kind.Type {
			continue
		}
		for _, name := range append([]string{o.name}, o.aliases...) {
			names = append(names, name, name+"s")
		}
	}
	if plural, ok := strings.CutSuffix(kind.Type, "y"); ok {
		names = append(names, plural+"ies")
	}
	return names
}

// findKind returns the kind with a name, regardless of case.
func findKind(word string) (contivmodel.Kind, error) {
	var known []string
	for _, kind := range orderedKinds() {
		names := kindNames(kind)
		for _, name := range names {
			if strings.EqualFold(name, word) {
				return kind, nil
			}
		}
		known = append(known, names...)
	}
	if meansEndpoints(word) {
		return contivmodel.Kind{}, usageError{message: "endpoints are made by container runtimes and cannot be configured; netctl endpoint ls lists them"}
	}
	if meansNetworkPolicies(word) {
		return contivmodel.Kind{}, usageError{message: "NetworkPolicies are objects of Kubernetes, which kubectl lists; netctl network-policy inspect NAMESPACE/NAME tells where one is in force"}
	}
	return contivmodel.Kind{}, usageError{message: fmt.Sprintf("unknown kind %q", word) + didYouMean(word, known)}
}

// remembering caches look-ups of words: thousands of documents have few kinds.
func remembering(find func(word string) (contivmodel.Kind, error)) func(word string) (contivmodel.Kind, error) {
	known := map[string]contivmodel.Kind{}
	return func(word string) (contivmodel.Kind, error) {
		if kind, ok := known[word]; ok {
			return kind, nil
		}
		kind, err := find(word)
		if err == nil {
			known[word] = kind
		}
		return kind, err
	}
}

// target is the parsed form of the arguments KIND [NAME].
type target struct {
	kind contivmodel.Kind
	key  string // empty: all objects of the kind
}

// targetOf parses KIND NAME, KIND KEY and, as -o name prints it, KIND/KEY. A name without a tenant is in the
// tenant of the flags.
func (s *session) targetOf(args cli.Args) (target, error) {
	word, name, joined := strings.Cut(args.Get(0), "/")
	if !joined {
		name = args.Get(1)
	} else if args.Get(1) != "" {
		return target{}, usageError{message: "more arguments than required: " + args.Get(1)}
	}
	kind, err := findKind(word)
	if err != nil {
		return target{}, err
	}
	keys := kind.KeyFields()
	switch {
	case name == "" && len(keys[0].OneOf) == 1 && joined:
		name = keys[0].OneOf[0]
	case name != "" && scoped(kind) && strings.Count(name, ":") == len(keys)-2:
		name = s.tenant() + ":" + name
	}
	if name != "" && strings.Count(name, ":") != len(keys)-1 {
		return target{}, usageError{message: fmt.Sprintf("%s %q: a name such as %s wanted", kind.Type, name, keyForm(kind))}
	}
	return target{kind, name}, nil
}

// keyForm returns the form of a key: policy:rule.
func keyForm(kind contivmodel.Kind) string {
	var parts []string
	for _, f := range kind.KeyFields() {
		if f.Name != "tenantName" || !scoped(kind) {
			parts = append(parts, strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(f.Name, "Name"), "Id")))
		}
	}
	return strings.Join(parts, ":")
}
