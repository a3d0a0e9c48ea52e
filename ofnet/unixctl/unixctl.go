// Package unixctl asks the daemons of Open vSwitch what they tell neither by OpenFlow nor in the
// database: over their control socket, in JSON-RPC, as ovs-appctl(8) does.
package unixctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"github.com/contiv/netplugin/utils/rootsocket"
)

// Refusal is what a daemon says of a command that it cannot carry out.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Call runs a command of the daemon whose control socket this is and returns what it prints. A command
// that fails is a Refusal; other errors are those of a daemon that does not answer.
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

// readAnswer reads what a daemon says to a command.
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

// Process is the number of the process whose control socket this is; 0 if it is one that this process does not see, as from a container.
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
