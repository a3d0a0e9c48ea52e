package logging

import (
	"bytes"
	"errors"
	"log"
	"time"

	"github.com/sirupsen/logrus"
)

// Beginnings of messages of net/http that are not about a client.
var (
	// panicked begins the one, with the stack, on a handler that has panicked. Its client gets no answer.
	panicked = []byte("http: panic serving ")
	// unaccepted begins the one on a connection that could not be accepted, as when the process may open no more
	// files. Then no client gets an answer.
	unaccepted = []byte("http: Accept error: ")
)

// OfServer returns a log for net/http, whose messages are about clients that misbehave: they are logged at debug
// level. That a handler has panicked is a fault of this program, and an error; so is that no connection can be
// accepted, which is logged at intervals, as net/http tries again many times a second.
func OfServer(entry *logrus.Entry) *log.Logger { return log.New(&ofServer{entry: entry}, "", 0) }

type ofServer struct {
	entry     *logrus.Entry
	accepting Trouble
}

func (s *ofServer) Write(p []byte) (int, error) {
	text := bytes.TrimSuffix(p, []byte("\n"))
	if cause, is := bytes.CutPrefix(text, unaccepted); is {
		cause, _, _ = bytes.Cut(cause, []byte("; retrying in "))
		if s.accepting.IsNews(errors.New(string(cause)), time.Now()) {
			s.entry.Errorf("connections are not accepted: %s", cause)
		}
		return len(p), nil
	}
	level := logrus.DebugLevel
	if bytes.HasPrefix(text, panicked) {
		level = logrus.ErrorLevel
	}
	s.entry.Logf(level, "%s", text)
	return len(p), nil
}
