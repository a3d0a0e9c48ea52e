package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/pending"
)

const (
	// How long an ADD waits for a server that is restarting, or has not started since the boot, and the interval of
	// attempts. containerd loads no new configuration while an ADD runs.
	patience = 30 * time.Second
	interval = 50 * time.Millisecond
	// Time limits for STATUS, for which container runtimes wait with all other work, and for the other commands.
	statusTimeout = 2 * time.Second
	otherTimeout  = 60 * time.Second
)

// carryOut sends a command to the server and returns what is to be printed.
func (s settings) carryOut(r cniwire.Request) ([]byte, error) {
	limit := otherTimeout
	switch r.Command {
	case cniwire.Add:
		limit = s.timeout()
	case cniwire.Status:
		limit = statusTimeout
	}
	deadline := time.Now().Add(limit)
	body, err := json.Marshal(r)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("encode request: %v", err), "")
	}
	netns := openNetns(r)
	defer netns.Close() // harmless if nil
	answer, err := s.insist(deadline, r.Command, body, netns)
	var refusal *types.Error
	if err == nil || errors.As(err, &refusal) {
		return answer, err
	}
	return nil, s.withoutServer(r, err)
}

// openNetns opens the container's network namespace for commands that work in it. Its path may exist only in the
// mount namespace of the runtime, which this process shares and the server does not. It returns nil if the
// namespace cannot be opened: the server reports the reason.
func openNetns(r cniwire.Request) *os.File {
	if r.Netns == "" || r.Command != cniwire.Add && r.Command != cniwire.Check {
		return nil
	}
	// O_NONBLOCK: opening a fifo in place of the namespace must not block.
	fd, err := syscall.Open(r.Netns, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), r.Netns)
}

// insist posts a request. An ADD is repeated while no server answers: it is idempotent, so it is harmless if the
// server died in the middle of the first one.
func (s settings) insist(deadline time.Time, command string, body []byte, netns *os.File) ([]byte, error) {
	var giveUp time.Time // end of the wait for an answer
	for {
		answer, err := post(deadline, s.Socket, cniwire.PathV2, body, netns)
		if giveUp.IsZero() {
			giveUp = time.Now().Add(patience)
		}
		next := time.Now().Add(interval)
		if command != cniwire.Add || !isUnanswered(err) || next.After(giveUp) || next.After(deadline) {
			return answer, err
		}
		time.Sleep(interval)
	}
}

func isUnanswered(err error) bool {
	var refusal *types.Error
	return err != nil && !errors.As(err, &refusal)
}

// withoutServer returns the result of a command that no server has answered.
func (s settings) withoutServer(r cniwire.Request, cause error) error {
	switch r.Command {
	case cniwire.Del:
		if err := pending.Open(s.StateDir).Put(r); err != nil {
			return types.NewError(types.ErrIOFailure, fmt.Sprintf("netplugin does not answer: %v, and %v", cause, err), "")
		}
		return nil
	case cniwire.Status:
		if cniwire.Beats(s.Socket, cniwire.Grace) {
			return nil // the server is being replaced
		}
		return unanswered(types.ErrPluginNotAvailable, cause)
	}
	return unanswered(types.ErrTryAgainLater, cause)
}

// unanswered returns the error that users see on their pods and nodes. The cause names the socket.
func unanswered(code uint, cause error) error {
	return types.NewError(code, fmt.Sprintf("netplugin of this node does not answer: %v", cause),
		"its log says why: that of the node's pod contiv-netplugin, or of the service netplugin")
}
