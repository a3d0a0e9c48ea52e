package ovsd

import (
	"context"
	"sync"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/fault"
)

// Packets have a connection of their own, so that they and bundles do not delay each other. What a pod can make
// the switch send is limited at each step, by class: by the meter in the switch, the hundred packets that
// ovs-vswitchd buffers for a connection, and the queue here, which never blocks the connection: when it is
// full, the oldest packet is dropped.

// packetQueue is how many packets of a class are queued for their reader.
const packetQueue = 64

// packets are the queues of all classes, and the connection.
type packets struct {
	mu      sync.Mutex
	conn    *openflow.Conn // the last one; nil: none yet
	queues  map[pipeline.PacketClass]chan pipeline.Packet
	dropped map[pipeline.PacketClass]uint64
}

func newPackets() *packets {
	return &packets{queues: map[pipeline.PacketClass]chan pipeline.Packet{}, dropped: map[pipeline.PacketClass]uint64{}}
}

// exchangePackets keeps the connection for packets.
func (d *Driver) exchangePackets(ctx context.Context) error {
	onEvent := func(m openflow.Message) {
		switch m := m.(type) {
		case openflow.PacketIn:
			d.packets.take(m)
		case openflow.FlowRemoved:
			d.noteRemoved(m)
		}
	}
	return d.keepConnected(ctx, onEvent, func(ctx context.Context, conn *openflow.Conn) error {
		d.packets.mu.Lock()
		d.packets.conn = conn
		d.packets.mu.Unlock()
		return conn.Send(ctx, openflow.SetAsync{PacketIn: 1 << openflow.ReasonAction, FlowRemoved: 1 << openflow.RemovedDelete})
	})
}

// noteRemoved has the switch read again when a flow of ours was deleted that no driver deletes, as with all others.
func (d *Driver) noteRemoved(m openflow.FlowRemoved) {
	if m.Reason == openflow.RemovedDelete && cookie.Ours(m.Cookie) {
		d.log.WithField("flow", m.String()).Warn("flows were deleted by somebody else, all are read again")
		d.flowsLost.Send()
	}
}

// take puts a packet into the queue of its class, if that has a reader.
func (p *packets) take(in openflow.PacketIn) {
	packet, ok := pipeline.PacketOf(in)
	if !ok {
		return // a flow of another program has sent it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queues[packet.Class]
	if queue == nil { // there is no reader
		p.dropped[packet.Class]++
		return
	}
	for {
		select {
		case queue <- packet:
			return
		default:
		}
		select {
		case <-queue: // its sender may have stopped waiting
			p.dropped[packet.Class]++
		default: // the reader was faster
		}
	}
}

// Packets returns the queue of a class.
func (d *Driver) Packets(class pipeline.PacketClass) <-chan pipeline.Packet {
	d.packets.mu.Lock()
	defer d.packets.mu.Unlock()
	queue := d.packets.queues[class]
	if queue == nil {
		queue = make(chan pipeline.Packet, packetQueue)
		d.packets.queues[class] = queue
	}
	return queue
}

// PacketsDropped counts packets for which the queue of their class had no room.
func (d *Driver) PacketsDropped(class pipeline.PacketClass) uint64 {
	d.packets.mu.Lock()
	defer d.packets.mu.Unlock()
	return d.packets.dropped[class]
}

// Send sends a packet to the switch.
func (d *Driver) Send(ctx context.Context, packet openflow.PacketOut) error {
	d.packets.mu.Lock()
	conn := d.packets.conn
	d.packets.mu.Unlock()
	if conn == nil || conn.Err() != nil {
		return fault.New(fault.Unavailable, "bridge %s: %s: the switch is not connected", d.config.Bridge, packet)
	}
	return conn.PacketOut(ctx, packet)
}
