package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
)

// logfile is where the program says what it did. Failures are always logged;
// what succeeds only at level debug, as it is every pod's every day.
type logfile struct {
	*log.Logger
	verbose bool
}

// openLog opens the configured file for appending; without one the log is
// standard error, which the runtime keeps.
func openLog(s settings) (logfile, error) {
	var out io.Writer = os.Stderr
	if s.LogFile != "" {
		f, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			return logfile{}, fmt.Errorf("open log file: %w", err)
		}
		out = f // closed by the end of the process
	}
	return logfile{
		Logger:  log.New(out, "contivk8s: ", log.LstdFlags|log.Lmicroseconds|log.Lmsgprefix),
		verbose: strings.EqualFold(s.LogLevel, "debug"),
	}, nil
}

func (l logfile) outcome(command string, args *skel.CmdArgs, err error) {
	switch {
	case err != nil:
		l.Printf("%s %s %s: %v", command, args.ContainerID, args.IfName, err)
	case l.verbose:
		l.Printf("%s %s %s: done", command, args.ContainerID, args.IfName)
	}
}
