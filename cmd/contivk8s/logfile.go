package main

import (
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

// openLog opens the configured file for appending. Without one, and where it cannot
// be opened, the log is standard error, which the runtime keeps: a log stops no command.
func openLog(s settings) logfile {
	var out io.Writer = os.Stderr
	var failure error
	if s.LogFile != "" {
		f, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if failure = err; err == nil {
			out = f // closed by the end of the process
		}
	}
	l := logfile{
		Logger:  log.New(out, "contivk8s: ", log.LstdFlags|log.Lmicroseconds|log.Lmsgprefix),
		verbose: strings.EqualFold(s.LogLevel, "debug"),
	}
	if failure != nil {
		l.Printf("log file: %v", failure)
	}
	return l
}

func (l logfile) outcome(command string, args *skel.CmdArgs, err error) {
	switch {
	case err != nil:
		l.Printf("%s %s %s: %v", command, args.ContainerID, args.IfName, err)
	case l.verbose:
		l.Printf("%s %s %s: done", command, args.ContainerID, args.IfName)
	}
}
