package logging

import (
	"bytes"
	"log"

	"github.com/sirupsen/logrus"
)

// panicked begins net/http's message, with the stack, on a handler that has panicked. Its client gets no answer.
var panicked = []byte("http: panic serving ")

// OfServer returns a log for net/http, whose messages are about clients that misbehave: they are logged at debug
// level. That a handler has panicked is a fault of this program, and an error.
func OfServer(entry *logrus.Entry) *log.Logger { return log.New(ofServer{entry}, "", 0) }

type ofServer struct{ entry *logrus.Entry }

func (s ofServer) Write(p []byte) (int, error) {
	level := logrus.DebugLevel
	if bytes.HasPrefix(p, panicked) {
		level = logrus.ErrorLevel
	}
	s.entry.Logf(level, "%s", bytes.TrimSuffix(p, []byte("\n")))
	return len(p), nil
}
