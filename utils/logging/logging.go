// Package logging sets up the log output of both daemons: text or JSON lines on stderr, and optionally a copy to
// syslog with facility daemon. Fields with secrets (package secret) are hidden in all of them.
//
// Components log through entries of the standard logger (logrus.WithField("component", ...)), so one call at the
// start configures all.
package logging

import (
	"fmt"
	"log/syslog"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	logrussyslog "github.com/sirupsen/logrus/hooks/syslog"
)

// Defaults of the flags.
const (
	DefaultLevel     = "INFO"
	DefaultSyslogURL = "udp://127.0.0.1:514"
)

// Config is the configuration of the log.
type Config struct {
	Level     string // debug, info, warn, error; any case
	JSON      bool   // one JSON object per line instead of text
	Syslog    bool   // copy to SyslogURL
	SyslogURL string // udp://host:port, tcp://host:port or unix:///path
	Tag       string // program name shown by syslog
}

// Validate returns every violation, each naming its flag.
func (c Config) Validate() []error {
	var found []error
	if _, err := logrus.ParseLevel(c.Level); err != nil {
		found = append(found, fmt.Errorf("--log-level %q: want DEBUG, INFO, WARN or ERROR", c.Level))
	}
	if _, _, err := c.syslogTarget(); err != nil {
		found = append(found, fmt.Errorf("--syslog-url: %w", err))
	}
	return found
}

// Apply configures a logger, usually logrus.StandardLogger().
func (c Config) Apply(logger *logrus.Logger) error {
	level, err := logrus.ParseLevel(c.Level)
	if err != nil {
		return fmt.Errorf("log level %q: %w", c.Level, err)
	}
	logger.SetLevel(level)
	logger.AddHook(hiding{}) // before the hook of syslog, which sends what earlier hooks have left
	if c.JSON {
		logger.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	} else {
		logger.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: time.StampNano})
	}
	if !c.Syslog {
		return nil
	}
	network, address, err := c.syslogTarget()
	if err != nil {
		return fmt.Errorf("syslog: %w", err)
	}
	hook, err := logrussyslog.NewSyslogHook(network, address, syslog.LOG_DAEMON|severity(level), c.Tag)
	if err != nil {
		return fmt.Errorf("syslog %s: %w", c.SyslogURL, err)
	}
	logger.AddHook(hook)
	return nil
}

// syslogTarget returns the arguments of a dial for the URL.
func (c Config) syslogTarget() (network, address string, err error) {
	target, err := url.Parse(c.SyslogURL)
	if err != nil {
		return "", "", fmt.Errorf("%q is not a URL", c.SyslogURL)
	}
	switch strings.ToLower(target.Scheme) {
	case "udp", "tcp":
		if target.Hostname() == "" || target.Port() == "" {
			return "", "", fmt.Errorf("%q: want %s://host:port", c.SyslogURL, target.Scheme)
		}
		return target.Scheme, target.Host, nil
	case "unix":
		return "unixgram", target.Path, nil
	}
	return "", "", fmt.Errorf("%q: scheme must be udp, tcp or unix", c.SyslogURL)
}

// severity returns the syslog severity of messages without one of their own.
func severity(level logrus.Level) syslog.Priority {
	switch {
	case level >= logrus.DebugLevel:
		return syslog.LOG_DEBUG
	case level == logrus.InfoLevel:
		return syslog.LOG_INFO
	case level == logrus.WarnLevel:
		return syslog.LOG_WARNING
	case level == logrus.ErrorLevel:
		return syslog.LOG_ERR
	}
	return syslog.LOG_CRIT
}
