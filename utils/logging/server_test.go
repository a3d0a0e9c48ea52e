package logging

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/sys/unix"
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

// Where a server cannot accept connections, as it may open no more files, its clients get no answer: that is an error, and
// logged once in a while, as net/http tries again up to 200 times a second.
func TestAServerThatCannotAcceptSaysSo(t *testing.T) {
	logger, logged := test.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	server := &http.Server{ErrorLog: OfServer(logrus.NewEntry(logger))}
	full := refusing(4)
	if err := server.Serve(&full); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	all := logged.AllEntries()
	if len(all) != 1 || all[0].Level != logrus.ErrorLevel || all[0].Message != "connections are not accepted: accept tcp: accept4: too many open files" {
		t.Errorf("it is said: %v", all)
	}
}

// refusing is a listener that fails so often before it ends.
type refusing int

func (r *refusing) Accept() (net.Conn, error) {
	if *r--; *r < 0 {
		return nil, io.EOF
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", unix.EMFILE)}
}

func (*refusing) Close() error   { return nil }
func (*refusing) Addr() net.Addr { return &net.TCPAddr{} }
