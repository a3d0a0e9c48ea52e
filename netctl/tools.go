package netctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

// tool is a command that is not about one kind of object.
type tool struct {
	name     string
	usage    string
	args     string            // labels; [LABEL] may be left out, LABEL... may be repeated
	flags    func() []cli.Flag // nil: none
	run      func(*session) error
	local    bool // needs no server
	hidden   bool
	verbatim bool   // every word is an argument, flags too
	more     string // what the reference says beside the usage
}

// tools returns all of them, in alphabetical order.
func tools() []tool {
	return []tool{
		{name: "__complete", usage: "List the words that may come next", run: doComplete, local: true, hidden: true, verbatim: true},
		applyTool, checkTool, completionTool, deleteTool, describeTool, diffTool, explainTool, exportTool, getTool,
		loginTool, logoutTool, statusTool, versionTool,
	}
}

func (t tool) command() *cli.Command {
	cmd := &cli.Command{
		Name: t.name, Usage: t.usage, ArgsUsage: t.args, Hidden: t.hidden, Description: t.more,
		HideHelpCommand: true, OnUsageError: onUsageError, SkipFlagParsing: t.verbatim,
	}
	if t.flags != nil {
		cmd.Flags = t.flags()
	}
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		s := newSession(ctx, cmd)
		if err := t.checkArgs(cmd); err != nil {
			return err
		}
		if t.local {
			return t.run(s)
		}
		return s.connected(func() error { return t.run(s) })
	}
	return cmd
}

// checkArgs compares the number of arguments with the labels.
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
