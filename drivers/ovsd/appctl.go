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
	var text string
	err := c.control(vswitchd, func(socket string) (err error) {
		text, err = unixctl.Call(ctx, socket, command, args...)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s of ovs-vswitchd in %s: %w", command, c.RunDir, err)
	}
	return text, nil
}

// vswitchd is the program that has the bridges.
const vswitchd = "ovs-vswitchd"

// control does something with the control socket of a program of Open vSwitch: with each that there is, until it succeeds or is refused, as
// some may be left from earlier processes.
func (c Config) control(program string, do func(socket string) error) error {
	// The name has the number of the process in it, unless somebody chose another.
	sockets, err := filepath.Glob(filepath.Join(c.RunDir, program+"*.ctl"))
	if err != nil {
		return err
	}
	err = errors.New("no control socket")
	for _, socket := range sockets {
		if err = do(socket); err == nil || isRefused(err) {
			break
		}
	}
	return err
}

func isRefused(err error) bool {
	var refusal unixctl.Refusal
	return errors.As(err, &refusal)
}
