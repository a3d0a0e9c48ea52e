// Package unixctl queries the daemons of Open vSwitch for what neither OpenFlow nor the database has: over their
// control socket, in JSON-RPC, as ovs-appctl(8) does.
package unixctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"github.com/contiv/netplugin/utils/rootsocket"
)

// Refusal is the error message of a daemon for a command that it cannot carry out.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Call runs a command of the daemon with this control socket and returns its output. A failed command is a
// Refusal; other errors say that the daemon does not answer.
func Call(ctx context.Context, socket, command string, args ...string) (string, error) {
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
	return readAnswer(conn)
}

// readAnswer reads the daemon's response to a command.
func readAnswer(from io.Reader) (string, error) {
	var answer struct {
		Result string
		Error  any
	}
	if err := json.NewDecoder(from).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Error != nil {
		return "", Refusal(fmt.Sprint(answer.Error))
	}
	return answer.Result, nil
}

// Process returns the pid of the process with this control socket; 0 if this process cannot see it, as from within
// a container.
func Process(ctx context.Context, socket string) (pid int, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	who, err := rootsocket.Peer(conn.(*net.UnixConn))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", socket, err)
	}
	return int(who.Pid), nil
}
