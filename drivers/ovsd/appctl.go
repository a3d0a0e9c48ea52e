package ovsd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/ofnet/unixctl"
)

// appctlTime is how long ovs-vswitchd may take to answer at its control socket.
const appctlTime = 5 * time.Second

// appctl runs a command of ovs-vswitchd and returns what it prints. What it refuses is a unixctl.Refusal.
func (c Config) appctl(ctx context.Context, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, appctlTime)
	defer cancel()
	// The name has the number of the process in it, unless somebody chose another.
	sockets, err := filepath.Glob(filepath.Join(c.RunDir, "ovs-vswitchd*.ctl"))
	if err != nil {
		return "", err
	}
	err = errors.New("no control socket")
	for _, socket := range sockets { // some may be left from earlier processes
		var text string
		if text, err = unixctl.Call(ctx, socket, command, args...); err == nil {
			return text, nil
		}
		if isRefused(err) {
			break
		}
	}
	return "", fmt.Errorf("%s of ovs-vswitchd in %s: %w", command, c.RunDir, err)
}

func isRefused(err error) bool {
	var refusal unixctl.Refusal
	return errors.As(err, &refusal)
}
