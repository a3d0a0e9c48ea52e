package logging

import (
	"fmt"
	"reflect"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/secret"
)

// hiding hides secrets in the fields of entries: JSON would show their text, and so would package fmt for
// unexported struct fields. A value that may contain a secret is replaced by its type.
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
