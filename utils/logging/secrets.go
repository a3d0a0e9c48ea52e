package logging

import (
	"fmt"
	"reflect"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/secret"
)

// hiding keeps secrets in the fields of an entry out of the log: JSON has their text, and
// package fmt prints it where a struct does not export it. Of a value that may have one, the
// log has the type.
type hiding struct{}

// Levels implements logrus.Hook.
func (hiding) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook. The entry is the logger's own copy.
func (hiding) Fire(entry *logrus.Entry) error {
	for name, value := range entry.Data {
		if t := reflect.TypeOf(value); secret.In(t) {
			entry.Data[name] = fmt.Sprintf("%s %s", t, secret.Shown)
		}
	}
	return nil
}
