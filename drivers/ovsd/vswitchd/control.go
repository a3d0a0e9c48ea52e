// Package vswitchd asks the ovs-vswitchd of a machine, and has it do, what is neither in its database nor in OpenFlow: by its
// control socket, as ovs-appctl does. It knows no bridge; what commands print, their callers understand.
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

// Call runs a command and returns what it prints. The error of a command that ovs-vswitchd refuses is one of which IsRefused is
// true; it is another one if it does not run, or does not answer in time.
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

// atSocket does something with the control socket of a program: with each that there is, until it succeeds or is refused, as some may be
// left from earlier processes.
func (c Control) atSocket(program string, do func(socket string) error) error {
	// The name has the number of the process in it, unless somebody chose another.
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

// IsRefused tells whether ovs-vswitchd has refused a command, which it has understood or not.
func IsRefused(err error) bool {
	var refusal unixctl.Refusal
	return errors.As(err, &refusal)
}
