package netctl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

// What netmaster warns of beside its answer is told people beside the output, without what would move their cursor.
func TestWarningsOfNetmasterAreTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(contivmodel.WarningHeader, contivmodel.FormatWarning("password of Bgp n1 came over plain HTTP\x1b[2J"))
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	got := run(t, server.URL, "bgp create n1 --router-ip 192.0.2.9/24 --as 65001 --neighbor 192.0.2.1 --neighbor-as 65002 --password secret")
	if got.code != 0 || !strings.Contains(got.stderr, "warning: password of Bgp n1 came over plain HTTP") || strings.Contains(got.stderr, "\x1b") || strings.Contains(got.stdout, "warning") {
		t.Errorf("%d: %q, %q", got.code, got.stdout, got.stderr)
	}
}
