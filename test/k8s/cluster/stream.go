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

// EchoPort is the port at which pods echo what they receive.
const EchoPort = 7

// Stream is the result of a stream of datagrams, one per millisecond.
type Stream struct {
	Sent     int     `json:"sent"`
	Lost     int     `json:"lost"`
	MaxGapMS float64 `json:"maxGapMs"` // longest time between two answers
	Late     int     `json:"late"`     // not sent, since the machine was too busy
	Losses   []struct {
		At    string `json:"at"`
		Count int    `json:"count"`
	} `json:"losses"`
}

// Echo starts an echo server in a pod, which runs until the pod ends.
func (p *Pod) Echo() error {
	_, err := p.Start("echo-"+p.Name, p.Node.Tool("probe"), "serve", "-udp", fmt.Sprint(EchoPort))
	return err
}

// Hears waits until a pod gets answers of an echo: other nodes learn the location of a pod a moment after it is
// ready.
func (p *Pod) Hears(ctx context.Context, echo string) error {
	return await(ctx, func() error {
		_, err := p.Run(ctx, p.Node.Tool("probe"), "stream", "-to", net.JoinHostPort(echo, fmt.Sprint(EchoPort)), "-count", "1", "-grace", "1s")
		return err
	})
}

// During sends a datagram per millisecond from a pod to an echo while happens runs, at most ten minutes. happens
// may run streams to other addresses.
func (p *Pod) During(ctx context.Context, to string, happens func() error) (Stream, error) {
	return Sender{p.Name, p.Node, p.Start}.During(ctx, net.JoinHostPort(to, fmt.Sprint(EchoPort)), happens)
}

// Sender is the source of datagrams: a node, or a pod on it.
type Sender struct {
	Name  string
	Node  *testbed.Node
	Start func(name string, args ...string) (*testbed.Process, error)
}

// During is Pod.During to an address with a port, with options of `probe stream`.
func (f Sender) During(ctx context.Context, to string, happens func() error, options ...string) (s Stream, err error) {
	name := strings.Join(append([]string{"stream", f.Name, to}, options...), "-")
	log := f.Node.LogFile(name)
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, err // the result of an earlier stream
	}
	sending, err := f.Start(name, append([]string{f.Node.Tool("probe"), "stream", "-to", to, "-count", "600000"}, options...)...)
	if err != nil {
		return s, err
	}
	defer sending.Kill() // unless it has ended by itself
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
