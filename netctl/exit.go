package netctl

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// Exit codes. Scripts depend on them.
const (
	exitUsage       = 1 // wrong arguments or flags, unusable netmaster URL
	exitUnreachable = 2 // no server answered
	exitRefused     = 3 // the server refused: invalid request, or anything without a finer code
	exitIO          = 4 // local files or output
	exitNotFound    = 5
	exitConflict    = 6 // the request is sound, the state of the cluster stands against it
	exitDenied      = 7
	exitPartial     = 9  // some of several parts failed
	exitDiffers     = 10 // of diff: there are differences
)

// exitCodes maps kinds of errors; those left out are exitRefused.
var exitCodes = map[fault.Kind]int{
	fault.Unavailable: exitUnreachable,
	fault.NotLeader:   exitUnreachable,
	fault.NotFound:    exitNotFound,
	fault.Conflict:    exitConflict,
	fault.InUse:       exitConflict,
	fault.Immutable:   exitConflict,
	fault.Exhausted:   exitConflict,
	fault.Mode:        exitConflict,
	fault.Denied:      exitDenied,
}

// usageError is a command line that makes no sense.
type usageError struct {
	message string
	help    *cli.Command // whose help to show; nil: none
}

func (e usageError) Error() string { return e.message }

// outputError is a result that could not be written.
type outputError struct{ cause error }

func (e outputError) Error() string { return fmt.Sprintf("cannot write the result: %v", e.cause) }
func (e outputError) Unwrap() error { return e.cause }

// fileError is a local file or terminal that cannot be used.
type fileError struct{ cause error }

func (e fileError) Error() string { return e.cause.Error() }
func (e fileError) Unwrap() error { return e.cause }

// outcomeCode ends a command that has said on stdout why it ends with a code.
type outcomeCode int

func (c outcomeCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func exitCode(err error) int {
	var (
		usage   usageError
		output  outputError
		file    fileError
		outcome outcomeCode
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &output), errors.As(err, &file):
		return exitIO
	case errors.As(err, &outcome):
		return int(outcome)
	}
	if code, ok := exitCodes[fault.KindOf(err)]; ok {
		return code
	}
	return exitRefused
}

// usageTemplate is the help that follows an error: without the flags that
// every command has.
const usageTemplate = `
Usage: {{template "usageTemplate" .}}{{if .VisibleFlags}}

Options:{{template "visibleFlagTemplate" .}}{{end}}
`

// report prints an error for people: what is wrong, what stands in the way,
// and, where it was a matter of usage, how it is meant.
func report(stderr io.Writer, err error) {
	if err == nil || errors.As(err, new(outcomeCode)) {
		return
	}
	fmt.Fprintf(stderr, "error: %s\n", strings.TrimSpace(err.Error()))
	if refused := fault.As(err); refused != nil {
		for _, detail := range refused.Details {
			if detail != refused.Message { // of an apply with one failure
				fmt.Fprintf(stderr, "  %s\n", detail)
			}
		}
	}
	var usage usageError
	if errors.As(err, &usage) && usage.help != nil {
		cli.HelpPrinter(stderr, usageTemplate, usage.help)
	}
}
