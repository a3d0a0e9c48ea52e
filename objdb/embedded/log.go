package embedded

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger returns a logger for etcd that writes to ours. etcd is verbose: its warnings (a slow disk, an
// unreachable peer, again and again) are interesting only when looking for a fault.
//
// A fatal error of etcd must not end the process from within a library: it is reported, the goroutine ends, and
// the owner of the server decides.
func logger(to *logrus.Entry, fatal func(error)) *zap.Logger {
	return zap.New(&bridge{to: to, strangers: &strangers{}}, zap.WithFatalHook(fatalHook(fatal)), zap.WithPanicHook(panicHook(fatal)))
}

// levels maps etcd's levels to ours; others are dropped.
var levels = map[zapcore.Level]logrus.Level{
	zapcore.WarnLevel:   logrus.DebugLevel,
	zapcore.ErrorLevel:  logrus.WarnLevel,
	zapcore.DPanicLevel: logrus.ErrorLevel,
	zapcore.PanicLevel:  logrus.ErrorLevel,
	zapcore.FatalLevel:  logrus.ErrorLevel,
}

// servingEnded begins the message about a listener that does not serve any more, which etcd logs for each one when it
// is closed. If etcd is not being closed, the error comes from its Err as well.
const servingEnded = "setting up serving from embedded etcd failed"

// bridge is a zap core that writes to logrus.
type bridge struct {
	to        *logrus.Entry
	strangers *strangers
}

func (b *bridge) Enabled(l zapcore.Level) bool {
	level, ok := levels[l]
	return ok && (b.to.Logger.IsLevelEnabled(level) || l == zapcore.WarnLevel) // strangers are told as warnings
}

func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{to: b.to.WithFields(plain(fields)), strangers: b.strangers}
}

func (b *bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return ce.AddCore(e, b)
	}
	return ce
}

func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	switch {
	case strings.Contains(e.Message, otherCluster):
		b.strangers.tell(b.to, plain(fields))
	case strings.HasPrefix(e.Message, servingEnded):
		b.to.WithFields(plain(fields)).Debug(e.Message)
	case b.to.Logger.IsLevelEnabled(levels[e.Level]):
		b.to.WithFields(plain(fields)).Log(levels[e.Level], e.Message)
	}
	return nil
}

func (b *bridge) Sync() error { return nil }

// plain converts zap's fields to ours.
func plain(fields []zapcore.Field) logrus.Fields {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	return enc.Fields
}

type fatalHook func(error)

func (report fatalHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(ce.Message)
	if cause, there := plain(fields)["error"]; there {
		err = fmt.Errorf("%s: %v", ce.Message, cause)
	}
	report(err)
	runtime.Goexit()
}

// panicHook reports that the data of a member has gone back, and leaves everything else to zap.
type panicHook func(error)

// goneBack begins the message of raft about a commit that the member has acknowledged and does not have. Only the
// goroutine of raft says so, when it hears from the leader.
const goneBack = "tocommit("

// errGoneBack is the error of a member whose raft has ended by that.
var errGoneBack = errors.New("the data of this member has gone back, as to a backup or with its disk or machine, and is not used: " +
	"remove the member, and add it again without data (etcdctl member remove)")

func (report panicHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	if !strings.HasPrefix(ce.Message, goneBack) {
		zapcore.WriteThenPanic.OnWrite(ce, fields) // does not return
	}
	report(fmt.Errorf("%w: %s", errGoneBack, ce.Message))
	runtime.Goexit()
}
