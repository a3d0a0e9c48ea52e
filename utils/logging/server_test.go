package logging

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// A handler that panics leaves its client without an answer: the log says so at the level of errors, with the
// stack. What clients do wrong, here to speak no TLS, is for those who look for it.
func TestPanicsOfHandlersAreErrors(t *testing.T) {
	logger, logged := test.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("no such room") }))
	server.Config.ErrorLog = OfServer(logrus.NewEntry(logger))
	server.StartTLS()
	if resp, err := server.Client().Get(server.URL); err == nil {
		_ = resp.Body.Close()
		t.Errorf("answered: %s", resp.Status)
	}
	if resp, err := http.Get(strings.Replace(server.URL, "https", "http", 1)); err == nil {
		_ = resp.Body.Close()
	}
	server.Close()
	found := map[logrus.Level]string{}
	for _, e := range logged.AllEntries() {
		found[e.Level] += e.Message
	}
	if !strings.Contains(found[logrus.ErrorLevel], "no such room") || !strings.Contains(found[logrus.ErrorLevel], "TestPanicsOfHandlersAreErrors") {
		t.Errorf("no error with the panic and its stack: %q", found)
	}
	if !strings.Contains(found[logrus.DebugLevel], "handshake") || strings.Contains(found[logrus.ErrorLevel], "handshake") {
		t.Errorf("the client's fault is not at debug level: %q", found)
	}
}
