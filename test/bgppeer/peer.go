// Package bgppeer is a small BGP neighbour for tests: it sends the messages that a test passes to it, as fast as
// the speaker reads them, and none by itself.
package bgppeer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Peer is a session with a speaker. One goroutine may send while another one receives.
type Peer struct{ conn net.Conn }

// holdTime is the hold time that it offers, in seconds.
const holdTime = 90

// Meet opens a session from an own address to a speaker that listens at another one.
func Meet(ctx context.Context, own netip.Addr, as uint16, speaker netip.AddrPort) (*Peer, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: own.AsSlice()}}
	conn, err := dialer.DialContext(ctx, "tcp", speaker.String())
	if err != nil {
		return nil, err
	}
	p := &Peer{conn}
	if err := p.introduce(own, as); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("BGP session of %s with %s: %w", own, speaker, err)
	}
	return p, nil
}

func (p *Peer) introduce(own netip.Addr, as uint16) error {
	open, err := bgp.NewBGPOpenMessage(as, holdTime, own, nil)
	if err != nil {
		return err
	}
	if err := p.Say(open); err != nil {
		return err
	}
	for _, want := range []uint8{bgp.BGP_MSG_OPEN, bgp.BGP_MSG_KEEPALIVE} {
		if got, err := p.Hear(time.Second); err != nil || got != want {
			return fmt.Errorf("a message of type %d, want %d: %w", got, want, err)
		}
	}
	return p.Say(bgp.NewBGPKeepAliveMessage())
}

// Say sends messages, and waits until the connection has room for them.
func (p *Peer) Say(messages ...*bgp.BGPMessage) error {
	for _, m := range messages {
		data, err := m.Serialize()
		if err != nil {
			return err
		}
		if _, err := p.conn.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// Hear returns the type of the next message; an error if none is received within a time.
func (p *Peer) Hear(within time.Duration) (uint8, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	header := make([]byte, bgp.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(p.conn, header); err != nil {
		return 0, err
	}
	const lengthAt, typeAt = 16, 18
	_, err := io.CopyN(io.Discard, p.conn, int64(binary.BigEndian.Uint16(header[lengthAt:]))-bgp.BGP_HEADER_LENGTH)
	return header[typeAt], err
}

// Close closes the connection without a notification.
func (p *Peer) Close() error { return p.conn.Close() }
