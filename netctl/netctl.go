// Package netctl is the command line of the controller.
//
// The commands are defined by two tables. objects.go has for every object its verbs, their arguments and flags,
// and the field of the model that each of them sets; commands.go turns it into commands, and verbs.go implements
// the few actions of a verb (create, remove, list, inspect, info, set), once for all objects. tools.go has the
// commands about any object or the cluster as a whole: get, describe, apply, status and so on. Columns, types and
// help texts come from the declarations of contivmodel.
//
// Results are written to stdout, everything else to stderr; the exit code identifies the kind of failure
// (exit.go).
package netctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/buildinfo"
)

// Run executes one command line, where args[0] is the program's name, and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := bufio.NewWriter(stdout)
	err := helpful(rootCommand(interruptible(ctx, stdin), out, stderr)).Run(ctx, args)
	if flushErr := out.Flush(); flushErr != nil && err == nil {
		err = outputError{flushErr}
	}
	if err != nil && ctx.Err() != nil {
		return interruptedCode(ctx)
	}
	if noHelp := cli.ExitCoder(nil); errors.As(err, &noHelp) { // the library's error for an unknown command
		err = usageError{message: noHelp.Error()}
	}
	report(stderr, err)
	return exitCode(err)
}

func rootCommand(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	root := &cli.Command{
		Name:    "netctl",
		Usage:   "look at and change the networks, groups and policies of a cluster",
		Version: "\n" + buildinfo.Get().String(),
		Flags:   connectionFlags(),
		// omits the section that would repeat the version
		CustomRootCommandHelpTemplate: cli.SubcommandHelpTemplate,
		Reader:                        stdin,
		Writer:                        stdout,
		ErrWriter:                     stderr,
		Action:                        unknownCommand,
		OnUsageError:                  onUsageError,
		ExitErrHandler:                func(context.Context, *cli.Command, error) {}, // Run handles errors
	}
	for i := range objects {
		root.Commands = append(root.Commands, objectCommand(&objects[i]))
	}
	for _, t := range tools() {
		root.Commands = append(root.Commands, t.command())
	}
	for _, f := range families() {
		root.Commands = append(root.Commands, f.command())
	}
	slices.SortFunc(root.Commands, func(a, b *cli.Command) int { return strings.Compare(a.Name, b.Name) })
	return root
}

// unknownCommand is the action of a command with subcommands: it prints help on request, and returns an error with
// a hint for an unknown name.
func unknownCommand(_ context.Context, cmd *cli.Command) error {
	if !cmd.Args().Present() {
		return cli.ShowSubcommandHelp(cmd)
	}
	typed := cmd.Args().First()
	message := fmt.Sprintf("unknown command %q of %s", typed, cmd.FullName())
	var names []string
	for _, sub := range cmd.Commands {
		names = append(names, sub.Names()...)
	}
	return usageError{message: message + didYouMean(typed, names)}
}
