// Package vswitchd queries and controls the ovs-vswitchd of a machine where neither its database nor OpenFlow can:
// by its control socket, as ovs-appctl does. It is independent of bridges; callers parse the output of commands.
//
//	control.go   a command and its answer
//	release.go   which version runs
//	began.go     when it was started
//	datapath.go  how commands name its datapaths
//	remotes.go   from where the database beside it takes orders
package vswitchd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/ofnet/unixctl"
)

// answerTime is how long ovs-vswitchd may take to answer at its control socket.
const answerTime = 5 * time.Second

// Control is the ovs-vswitchd with its sockets in a directory, whichever process that is at the time.
type Control struct{ RunDir string }

// Call runs a command and returns its output. IsRefused is true of the error of a command that ovs-vswitchd
// refuses; it is another error if it does not run, or does not answer in time.
func (c Control) Call(ctx context.Context, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var text string
	err := c.atSocket(ovsVswitchd, func(socket string) (err error) {
		text, err = unixctl.Call(ctx, socket, command, args...)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s of ovs-vswitchd in %s: %w", command, c.RunDir, err)
	}
	return text, nil
}

// Programs that have control sockets.
const (
	ovsVswitchd = "ovs-vswitchd"
	ovsdbServer = "ovsdb-server"
)

// atSocket uses the control sockets of a program, one after the other until do succeeds or is refused, as some
// may be left from earlier processes.
func (c Control) atSocket(program string, do func(socket string) error) error {
	// The name contains the number of the process, unless it was configured.
	sockets, err := filepath.Glob(filepath.Join(c.RunDir, program+"*.ctl"))
	if err != nil {
		return err
	}
	err = errors.New("no control socket")
	for _, socket := range sockets {
		if err = do(socket); err == nil || IsRefused(err) {
			break
		}
	}
	return err
}

// IsRefused reports whether ovs-vswitchd has refused a command, known or unknown.
func IsRefused(err error) bool {
	var refusal unixctl.Refusal
	return errors.As(err, &refusal)
}
