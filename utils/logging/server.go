package logging

import (
	"log"

	"github.com/sirupsen/logrus"
)

// OfServer returns a log for net/http, whose messages are about clients that misbehave: they are logged at debug
// level.
func OfServer(entry *logrus.Entry) *log.Logger { return log.New(debugging{entry}, "", 0) }

type debugging struct{ entry *logrus.Entry }

func (d debugging) Write(p []byte) (int, error) {
	d.entry.Debugf("%s", p)
	return len(p), nil
}
