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
	exitRefused     = 3 // the server refused: invalid request, or any kind without a code of its own
	exitIO          = 4 // local files or output
	exitNotFound    = 5
	exitConflict    = 6 // the request is valid, but conflicts with the state of the cluster
	exitDenied      = 7
	exitPartial     = 9   // some of several parts failed
	exitDropped     = 10  // a packet would be dropped
	exitUndecided   = 11  // the outcome for the packet is unknown
	exitSignal      = 128 // plus the number of the signal that ended the command
)

// exitCodes maps kinds of errors; all others are exitRefused.
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

// usageError is an invalid command line.
type usageError struct {
	message string
	help    *cli.Command // command whose help is shown; nil: none
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

// Exit codes of diff, as of other programs of that name.
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

// outcomeCode is an exit code whose reason is already printed on stdout.
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

// documented is an error for programs that read JSON.
type documented struct{ error }

func (d documented) Unwrap() error { return d.error }

// document returns the JSON of a refusal, as netmaster writes it, with the code of its kind. The response itself
// may have had another code, or there was none.
func (d documented) document(refused *fault.Error) string {
	problem := fault.ProblemOf(d.error, refused.Kind.Status())
	problem.Message = strings.TrimSpace(d.Error()) // including what follows the first line
	problem.Request = fault.RequestOf(d.error)
	text, err := json.MarshalIndent(problem, "", "  ")
	if err != nil {
		return fmt.Sprintf("error: %v", d.error)
	}
	return string(text)
}

// report prints an error for users: the problem, the cause and, for usage errors, the correct usage.
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

// printableLines replaces characters that control the terminal in errors of other origin. Some errors have several
// lines.
func printableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return steering(r)
	}, text)
}
