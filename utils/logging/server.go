package logging

import (
	"log"

	"github.com/sirupsen/logrus"
)

// OfServer is what net/http says to, which is about clients that misbehave: it is logged at level debug.
func OfServer(entry *logrus.Entry) *log.Logger { return log.New(debugging{entry}, "", 0) }

type debugging struct{ entry *logrus.Entry }

func (d debugging) Write(p []byte) (int, error) {
	d.entry.Debugf("%s", p)
	return len(p), nil
}
