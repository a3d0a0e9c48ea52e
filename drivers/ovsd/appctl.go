package ovsd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// ovs-vswitchd tells over its control socket, which ovs-appctl(8) uses, what neither
// OpenFlow nor OVSDB do.

// appctlTime is how long it may take to answer.
const appctlTime = 5 * time.Second

// appctl runs a command of ovs-vswitchd and returns what it prints.
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
		if text, err = askControl(ctx, socket, command, args); err == nil {
			return text, nil
		}
	}
	return "", fmt.Errorf("%s of ovs-vswitchd in %s: %w", command, c.RunDir, err)
}

// askControl asks at one socket, in JSON-RPC.
func askControl(ctx context.Context, socket, command string, args []string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return "", err
		}
	}
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": command, "params": append([]string{}, args...)}); err != nil {
		return "", err
	}
	var answer struct {
		Result string
		Error  any
	}
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Error != nil {
		return "", fmt.Errorf("%v", answer.Error)
	}
	return answer.Result, nil
}
