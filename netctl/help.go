package netctl

import (
	"cmp"
	"context"
	"strings"

	"github.com/urfave/cli/v3"
)

// helpTemplate is the help of a command, on request.
const helpTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{template "usageTemplate" .}}{{if .Description}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}{{end}}{{with index .Metadata "examples"}}

EXAMPLES:{{range .}}
   {{.}}{{end}}{{end}}{{if .VisibleFlags}}

OPTIONS:{{template "visibleFlagTemplate" .}}{{end}}{{if .VisiblePersistentFlags}}

GLOBAL OPTIONS:{{template "visiblePersistentFlagTemplate" .}}{{end}}
`

// usageTemplate is the help after an error: without the flags common to all commands.
const usageTemplate = `
Usage: {{template "usageTemplate" .}}{{with index .Metadata "examples"}}

Examples:{{range .}}
   {{.}}{{end}}{{end}}{{if .VisibleFlags}}

Options:{{template "visibleFlagTemplate" .}}{{end}}
`

// teach sets the help of a command; its path is "network create".
func teach(cmd *cli.Command, path, description string) {
	cmd.CustomHelpTemplate = helpTemplate
	cmd.Description = wrap(description)
	cmd.Metadata = map[string]any{"examples": examples[path]}
}

// helpful extends the library's help of a command, and of all its subcommands. The library's command "help"
// accepts no flag, not even --help; this one does. And the library treats the first argument beside --help as a
// topic, which only commands with subcommands have.
func helpful(cmd *cli.Command) *cli.Command {
	if len(cmd.Commands) == 0 {
		cmd.CommandNotFound = func(_ context.Context, asked *cli.Command, _ string) {
			cli.HelpPrinter(asked.Root().Writer, cmp.Or(asked.CustomHelpTemplate, cli.CommandHelpTemplate), asked)
		}
		return cmd
	}
	for _, sub := range cmd.Commands {
		helpful(sub)
	}
	help := &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: cli.UsageCommandHelp, ArgsUsage: cli.ArgsUsageCommandHelp,
		HideHelpCommand: true, OnUsageError: onUsageError,
		Action: func(ctx context.Context, asked *cli.Command) error {
			if topic := asked.Args().First(); topic != "" {
				return cli.ShowCommandHelp(ctx, cmd, topic)
			}
			return cli.ShowSubcommandHelp(cmd)
		},
	}
	teach(help, cmd.Name+" help", "")
	cmd.Commands = append(cmd.Commands, helpful(help))
	return cmd
}

// wrap breaks a text into lines that fit a terminal with the indentation of help.
func wrap(text string) string {
	const width = 76
	var out strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case used+1+len(word) > width:
			out.WriteByte('\n')
			used = 0
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += len(word)
	}
	return out.String()
}
