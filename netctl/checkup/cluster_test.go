package checkup

import (
	"strings"
	"testing"
)

// A closed cluster is not closed if its store is reachable for others in plain HTTP.
func TestAPlainStoreIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		mode, store, want string
	}{
		"open":                     {"open", "http://10.1.1.1:2379", "WARNING, open"},
		"plain, at loopback":       {"enforced", "http://127.0.0.1:2379", ""},
		"plain, at its loopback":   {"enforced", "http://[::1]:2379 http://localhost:2379", ""},
		"with TLS":                 {"enforced", "https://10.1.1.1:2379", ""},
		"plain":                    {"enforced", "https://127.0.0.1:2379 http://10.1.1.1:2379", "WARNING: whoever reaches the store at http://10.1.1.1:2379"},
		"plain, by a name":         {"permissive", "http://etcd:2379", "WARNING: whoever reaches the store at http://etcd:2379"},
		"plain, of another family": {"permissive", "http://[2001:db8::1]:2379", "WARNING: whoever reaches the store"},
	} {
		if got := secured(c.mode, strings.Fields(c.store)); !strings.Contains(got, c.want) || c.want == "" && got != c.mode {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
