// Package metriclint checks a daemon's Prometheus metrics against the conventions for names, and against the page
// that lists them.
package metriclint

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var (
	described = regexp.MustCompile(`^Desc{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")`)
	listed    = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	ofLibrary = regexp.MustCompile(`^(go|process)_`) // from the library's own collectors
)

// Check reports an error for each metric of a registry with a name that violates the conventions, does not begin
// with the name of the program, or is missing in the table of the page, and for each of the program's metrics in
// the table that the registry does not have.
func Check(t testing.TB, registry *prometheus.Registry, program, page string) {
	t.Helper()
	helps := helpOf(t, registry)
	for _, p := range problems(t, registry, helps) {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, row := range listed.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(row[1], program+"_") {
			told[row[1]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(helps)) {
		if !strings.HasPrefix(name, program+"_") {
			t.Errorf("%s does not begin with %s_", name, program)
		}
		if !told[name] {
			t.Errorf("%s is not in the table of %s", name, page)
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("%s is in the table of %s, and nowhere else", name, page)
	}
}

// helpOf returns the help texts of a registry's metrics by name, also of those without a value.
func helpOf(t testing.TB, registry *prometheus.Registry) map[string]string {
	t.Helper()
	all, helps := make(chan *prometheus.Desc), map[string]string{}
	go func() {
		defer close(all)
		registry.Describe(all)
	}()
	for desc := range all {
		found := described.FindStringSubmatch(desc.String())
		if found == nil {
			t.Errorf("unread: %s", desc)
			continue
		}
		name, wrongName := strconv.Unquote(found[1])
		help, wrongHelp := strconv.Unquote(found[2])
		if wrongName != nil || wrongHelp != nil {
			t.Errorf("unread: %s", desc)
		}
		if !ofLibrary.MatchString(name) {
			helps[name] = help
		}
	}
	return helps
}

// problems returns the findings of promlint. Metrics without a value are passed to it with unknown type.
func problems(t testing.TB, registry *prometheus.Registry, helps map[string]string) []promlint.Problem {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	valueless := maps.Clone(helps)
	for _, f := range families {
		delete(valueless, f.GetName())
	}
	var text strings.Builder
	for name, help := range valueless {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s untyped\n%s 0\n", name, help, name, name)
	}
	of, wrong := promlint.NewWithMetricFamilies(families).Lint()
	more, unread := promlint.New(strings.NewReader(text.String())).Lint()
	if wrong != nil || unread != nil {
		t.Fatal(wrong, unread)
	}
	return slices.DeleteFunc(slices.Concat(of, more), func(p promlint.Problem) bool { return ofLibrary.MatchString(p.Metric) })
}
