package netctl

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed completion
var completionScripts embed.FS

// shells are the shells with a completion script.
var shells = []string{"bash", "zsh", "fish"}

var completionTool = tool{
	name: "completion", usage: "Write the script that lets a shell complete command lines, names of objects included", args: "SHELL", run: doCompletion, local: true,
	more: "SHELL is bash, zsh or fish. For the present shell: `source <(netctl completion bash)`, the same with zsh, " +
		"`netctl completion fish | source`. For all: bash reads `/etc/bash_completion.d/netctl`, zsh `_netctl` in a folder of " +
		"its `fpath`, fish `~/.config/fish/completions/netctl.fish`. Names are asked for at the server of the command line, " +
		"or of the environment; one that does not answer within two seconds, or those of --request-timeout, has none.",
}

func doCompletion(s *session) error {
	shell := s.cmd.Args().First()
	script, err := completionScripts.ReadFile("completion/netctl." + shell)
	if err != nil {
		return usageError{message: fmt.Sprintf("shell %q: one of %s wanted", shell, strings.Join(shells, ", ")) + didYouMean(shell, shells)}
	}
	_, err = s.out.Write(script)
	return err
}
