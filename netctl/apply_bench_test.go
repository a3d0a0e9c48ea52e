package netctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netctl/manifest"
)

// BenchmarkDocuments reads a file of 5,000 rules, as an apply does before it asks the server.
func BenchmarkDocuments(b *testing.B) {
	const rules = 5000
	var text strings.Builder
	for i := range rules {
		fmt.Fprintf(&text, `{"kind":"rule","metadata":{"tenant":"blue","policy":"web","name":"r%d"},"spec":{"direction":"in","action":"deny","protocol":"tcp","port":%d,"fromEndpointGroup":"front"}}`+"\n", i, 1+i)
	}
	file := filepath.Join(b.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		documents, err := manifest.Reader{Kind: remembering(findKind)}.Read(file)
		if err == nil {
			err = fillDefaults(documents)
		}
		if err != nil || len(documents) != rules {
			b.Fatal(len(documents), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*rules), "µs/document")
}
