package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// EchoPort is where pods send back what they get.
const EchoPort = 7

// Stream is what became of datagrams, one per millisecond.
type Stream struct {
	Sent     int     `json:"sent"`
	Lost     int     `json:"lost"`
	MaxGapMS float64 `json:"maxGapMs"` // longest time between two answers
	Late     int     `json:"late"`     // not sent, as the machine was too busy
	Losses   []struct {
		At    string `json:"at"`
		Count int    `json:"count"`
	} `json:"losses"`
}

// Echo has a pod send back the datagrams that it gets, until it ends.
func (p *Pod) Echo() error {
	_, err := p.Start("echo-"+p.Name, p.Node.Tool("probe"), "serve", "-udp", fmt.Sprint(EchoPort))
	return err
}

// Hears waits until an echo answers a pod: other nodes learn where a pod is a moment after it is ready.
func (p *Pod) Hears(ctx context.Context, echo string) error {
	return await(ctx, func() error {
		_, err := p.Run(ctx, p.Node.Tool("probe"), "stream", "-to", net.JoinHostPort(echo, fmt.Sprint(EchoPort)), "-count", "1", "-grace", "1s")
		return err
	})
}

// During sends a datagram per millisecond from a pod to an echo, for as long as
// something happens, at most ten minutes. Streams to other addresses may be part of what happens.
func (p *Pod) During(ctx context.Context, to string, happens func() error) (Stream, error) {
	return Sender{p.Name, p.Node, p.Start}.During(ctx, net.JoinHostPort(to, fmt.Sprint(EchoPort)), happens)
}

// Sender is where datagrams come from: a node, or what is on it.
type Sender struct {
	Name  string
	Node  *testbed.Node
	Start func(name string, args ...string) (*testbed.Process, error)
}

// During is that of a pod, to a port, with options of `probe stream`.
func (f Sender) During(ctx context.Context, to string, happens func() error, options ...string) (s Stream, err error) {
	name := strings.Join(append([]string{"stream", f.Name, to}, options...), "-")
	log := f.Node.LogFile(name)
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, err // an earlier stream's
	}
	sending, err := f.Start(name, append([]string{f.Node.Tool("probe"), "stream", "-to", to, "-count", "600000"}, options...)...)
	if err != nil {
		return s, err
	}
	defer sending.Kill() // if it has not ended by itself
	if err := await(ctx, func() error {
		data, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(data), "sending") {
			err = fmt.Errorf("the stream has not begun: %q", data)
		}
		return err
	}); err != nil {
		return s, err
	}
	if err := errors.Join(happens(), sending.Terminate()); err != nil {
		return s, err
	}
	data, err := os.ReadFile(log)
	if err != nil {
		return s, err
	}
	_, report, found := strings.Cut(string(data), "{")
	if !found {
		return s, fmt.Errorf("no report in %q", data)
	}
	return s, json.NewDecoder(strings.NewReader("{" + report)).Decode(&s)
}
