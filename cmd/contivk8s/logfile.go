package main

import (
	"io"
	"log"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
)

// logfile is the log of the program. Failures are always logged; successful commands only at level debug, since
// every pod causes them.
type logfile struct {
	*log.Logger
	verbose bool
}

// openLog opens the configured file for appending. Without one, or if it cannot be opened, the log is standard
// error, which the runtime records: a problem with the log fails no command.
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
