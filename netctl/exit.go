package netctl

import (
	"encoding/json"
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
	exitPartial     = 9   // some of several parts failed
	exitDropped     = 10  // a packet would be thrown away
	exitUndecided   = 11  // nobody can tell what becomes of it
	exitSignal      = 128 // plus the number of the signal that ended the command
)

// exitCodes maps kinds of errors; those left out are exitRefused.
var exitCodes = map[fault.Kind]int{
	fault.Unavailable:     exitUnreachable,
	fault.NotLeader:       exitUnreachable,
	fault.NotFound:        exitNotFound,
	fault.Conflict:        exitConflict,
	fault.InUse:           exitConflict,
	fault.Immutable:       exitConflict,
	fault.Exhausted:       exitConflict,
	fault.Mode:            exitConflict,
	fault.Denied:          exitDenied,
	fault.Unauthenticated: exitDenied,
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

// The exit codes of diff are those of other programs of that name.
const (
	exitDiffers = 1 // there are differences
	exitTrouble = 2 // wrong arguments, flags or documents
)

// misuse is a usageError with a code of its own.
type misuse struct {
	usageError
	code int
}

func (m misuse) Unwrap() error { return m.usageError }

// outcomeCode ends a command that has said on stdout why it ends with a code.
type outcomeCode int

func (c outcomeCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func exitCode(err error) int {
	var (
		usage   usageError
		output  outputError
		file    fileError
		outcome outcomeCode
		special misuse
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &special):
		return special.code
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

// documented is an error for a program that reads JSON.
type documented struct{ error }

func (d documented) Unwrap() error { return d.error }

// document is the JSON of a refusal, as netmaster writes it, with the code of its kind. The answer itself may
// have come with another, or there was none.
func (d documented) document(refused *fault.Error) string {
	problem := fault.ProblemOf(d.error, refused.Kind.Status())
	problem.Message = strings.TrimSpace(d.Error()) // with what follows the first line
	problem.Request = fault.RequestOf(d.error)
	text, err := json.MarshalIndent(problem, "", "  ")
	if err != nil {
		return fmt.Sprintf("error: %v", d.error)
	}
	return string(text)
}

// report prints an error for people: what is wrong, what stands in the way,
// and, where it was a matter of usage, how it is meant.
func report(stderr io.Writer, err error) {
	if err == nil || errors.As(err, new(outcomeCode)) {
		return
	}
	refused := fault.As(err)
	if forProgram := (documented{}); refused != nil && errors.As(err, &forProgram) {
		fmt.Fprintln(stderr, forProgram.document(refused))
		return
	}
	fmt.Fprintf(stderr, "error: %s\n", printableLines(strings.TrimSpace(err.Error())))
	if refused != nil {
		for _, detail := range refused.Details {
			if detail != refused.Message { // of an apply with one failure
				fmt.Fprintf(stderr, "  %s\n", printableLines(detail))
			}
		}
	}
	if id := fault.RequestOf(err); id != "" && fault.Is(err, fault.Internal) {
		fmt.Fprintf(stderr, "  request %s: the log of netmaster has more of it\n", printable(id))
	}
	var usage usageError
	if errors.As(err, &usage) && usage.help != nil {
		cli.HelpPrinter(stderr, usageTemplate, usage.help)
	}
}

// printableLines keeps what others have said in an error from steering the terminal. Some errors have several lines.
func printableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return steering(r)
	}, text)
}
