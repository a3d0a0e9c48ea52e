package netctl

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// leaves returns the commands with an action, by path: "network create".
func leaves() map[string]*cli.Command {
	found := map[string]*cli.Command{}
	for _, cmd := range rootCommand(nil, io.Discard, io.Discard).Commands {
		if cmd.Hidden {
			continue
		}
		if len(cmd.Commands) == 0 {
			found[cmd.Name] = cmd
		}
		for _, verb := range cmd.Commands {
			found[cmd.Name+" "+verb.Name] = verb
		}
	}
	return found
}

// Every command has an example, and each example is a command line of that command.
func TestHelpHasExamplesThatCanBeTyped(t *testing.T) {
	for path := range leaves() {
		if len(examples[path]) == 0 {
			t.Errorf("%s has no example", path)
		}
	}
	for path, lines := range examples {
		for _, line := range lines {
			if used, err := parsed(line); err != nil || used != path {
				t.Errorf("%s: example %q is one of %q, %v", path, line, used, err)
			}
		}
	}
}

// parsed reads a command line of the shell as far as netctl's parser does, and
// returns the path of the command whose number of arguments it has.
func parsed(line string) (path string, err error) {
	line = line[strings.LastIndex(line, " | ")+1:]
	for _, redirection := range []string{" > ", " < ", ")"} {
		line, _, _ = strings.Cut(line, redirection)
	}
	root := rootCommand(nil, io.Discard, io.Discard)
	for _, cmd := range root.Commands {
		for _, leaf := range append(cmd.Commands, cmd) {
			leaf.Action = func(_ context.Context, cmd *cli.Command) error {
				if given, labels := cmd.Args().Len(), strings.Count(cmd.ArgsUsage, "<"); labels > 0 && given != labels {
					return fmt.Errorf("%d arguments", given)
				}
				path = strings.TrimPrefix(cmd.FullName(), "netctl ")
				return nil
			}
		}
	}
	return path, root.Run(context.Background(), words(strings.TrimLeft(strings.TrimPrefix(line, "source <("), "| ")))
}
