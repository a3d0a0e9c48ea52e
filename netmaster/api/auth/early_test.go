package auth

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/test/testkit"
)

// For each address one refusal in ten seconds is recorded, with the number of the others.
func TestEarlyRefusalsDoNotFillTheAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	now := time.Now()
	refusals := NewEarlyRefusals(log)
	refusals.now = func() time.Time { return now }
	refuse := func(from string) {
		r := httptest.NewRequest("GET", "/api/v1/tenants/", nil)
		r.RemoteAddr = from
		refusals.Add(r, "certificate", 401, errors.New("it has ended"))
	}
	for range 100 {
		refuse("192.0.2.1:4000")
	}
	refuse("192.0.2.2:4000")
	now = now.Add(10 * time.Second)
	refuse("192.0.2.1:5000")
	(*EarlyRefusals)(nil).Add(httptest.NewRequest("GET", "/", nil), "", 403, errors.New("nowhere"))
	ended, end := context.WithCancel(t.Context())
	end()
	log.Run(ended)
	lines, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(lines)
	if c, err := audit.Verify(path); c.Lines != 3 || err != nil || strings.Count(text, `"how":"certificate","source":"192.0.2.1"`) != 2 ||
		strings.Count(text, `"untold":99`) != 1 || strings.Count(text, `"reason":"it has ended","status":401`) != 3 {
		t.Errorf("%d lines, %v:\n%s", c.Lines, err, text)
	}
}
