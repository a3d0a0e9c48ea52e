package testbed

import (
	"errors"
	"os"
	"os/exec"
)

// RunInTerminal runs a command of a machine with the terminal of this process and returns its exit code; the error
// means that it did not run.
func RunInTerminal(cmd *exec.Cmd) (code int, err error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = nil // a shell must stay in the terminal's foreground group
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
