package k8sutils

import (
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
)

// LogTo makes the client of Kubernetes log to an entry, in the whole process. By default it logs to standard
// error, in a format of its own. Its errors become warnings, since it retries; everything else is at debug level.
func LogTo(to *logrus.Entry) { klog.SetLogger(logr.New(logSink{to})) }

// logSink passes the log of logr to logrus.
type logSink struct{ to *logrus.Entry }

func (logSink) Init(logr.RuntimeInfo) {}

func (s logSink) Enabled(int) bool { return s.to.Logger.IsLevelEnabled(logrus.DebugLevel) }

func (s logSink) Info(_ int, message string, keysAndValues ...any) {
	s.with(keysAndValues).Debug(message)
}

func (s logSink) Error(err error, message string, keysAndValues ...any) {
	entry := s.with(keysAndValues)
	if err != nil {
		entry = entry.WithError(err)
	}
	entry.Warn(message)
}

func (s logSink) WithName(string) logr.LogSink { return s }

func (s logSink) WithValues(keysAndValues ...any) logr.LogSink { return logSink{s.with(keysAndValues)} }

// with adds fields, which are alternating keys and values in logr.
func (s logSink) with(keysAndValues []any) *logrus.Entry {
	fields := logrus.Fields{}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if key, ok := keysAndValues[i].(string); ok {
			fields[key] = keysAndValues[i+1]
		}
	}
	return s.to.WithFields(fields)
}
