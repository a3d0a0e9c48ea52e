package netctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

// tool is a command for more than one kind of object.
type tool struct {
	name     string
	usage    string
	args     string            // [LABEL] is optional, LABEL... may be repeated
	flags    func() []cli.Flag // nil: none
	run      func(*session) error
	local    bool // needs no server
	hidden   bool
	verbatim bool   // every word is an argument, flags too
	more     string // text in the reference beside the usage
	misuse   int    // exit code after wrong arguments or flags; 0: exitUsage
}

// tools returns all tools, in alphabetical order.
func tools() []tool {
	return []tool{
		{name: "__complete", usage: "List the words that may come next", run: doComplete, local: true, hidden: true, verbatim: true},
		applyTool, checkTool, completionTool, deleteTool, describeTool, diffTool, explainTool, exportTool, getTool,
		loginTool, logoutTool, statusTool, traceTool, verdictTool, versionTool, whoAmITool,
	}
}

func (t tool) command() *cli.Command {
	cmd := &cli.Command{
		Name: t.name, Usage: t.usage, ArgsUsage: t.args, Hidden: t.hidden,
		HideHelpCommand: true, SkipFlagParsing: t.verbatim,
		DisableSliceFlagSeparator: true, // the name of a file may contain a comma
	}
	teach(cmd, t.name, t.more)
	if t.flags != nil {
		cmd.Flags = t.flags()
	}
	cmd.OnUsageError = func(ctx context.Context, cmd *cli.Command, err error, sub bool) error {
		return t.failed(onUsageError(ctx, cmd, err, sub))
	}
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		s := newSession(ctx, cmd)
		err := t.checkArgs(cmd)
		switch {
		case err != nil:
		case t.local:
			err = t.run(s)
		default:
			err = s.connected(func() error { return t.run(s) })
		}
		return s.failed(t.failed(err))
	}
	return cmd
}

// failed sets the exit code of misuse.
func (t tool) failed(err error) error {
	var usage usageError
	if t.misuse != 0 && errors.As(err, &usage) {
		return misuse{usage, t.misuse}
	}
	return err
}

// checkArgs validates the number of arguments by the labels.
func (t tool) checkArgs(cmd *cli.Command) error {
	given := cmd.Args().Slice()
	labels := strings.Fields(t.args)
	for i, label := range labels {
		if i >= len(given) && !strings.HasPrefix(label, "[") {
			return usageError{fmt.Sprintf("%s required", strings.Trim(label, "<>.")), cmd}
		}
	}
	if repeated := strings.Contains(t.args, "..."); len(given) > len(labels) && !repeated && !t.verbatim {
		return usageError{"more arguments than required: " + strings.Join(given[len(labels):], " "), cmd}
	}
	return nil
}
