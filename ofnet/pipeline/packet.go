package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// PacketClass is the purpose of a packet that a flow sends to the agent. Classes are separate from the switch
// to their reader, so that a flood of one costs the others nothing: each has a meter of its own in the switch
// and a queue of its own in the driver.
type PacketClass uint8

// Action sends a copy of the packet to the agent, with a note. It needs the meter of the class in the same switch.
func (c PacketClass) Action(note ...byte) openflow.Action { return c.metered(c.meter(), note...) }

// metered is Action with another meter.
func (c PacketClass) metered(meter uint32, note ...byte) openflow.Action {
	return openflow.Controller{MaxLen: openflow.NoBuffer, Reason: openflow.ReasonAction,
		UserData: append([]byte{byte(c)}, note...), Meter: meter}
}

// Meter limits how many packets of the class are sent to the agent. The excess is not copied; the packet itself
// continues.
func (c PacketClass) Meter(perSecond, atOnce uint32) openflow.Meter {
	return packetMeter(c.meter(), perSecond, atOnce)
}

// packetMeter returns a meter that drops packets beyond a rate and a burst.
func packetMeter(id, perSecond, atOnce uint32) openflow.Meter {
	return openflow.Meter{ID: id, Flags: openflow.MeterPktps | openflow.MeterBurst | openflow.MeterStatistics,
		Bands: []openflow.MeterBand{{Rate: perSecond, Burst: atOnce}}}
}

func (c PacketClass) meter() uint32 { return meterPackets + uint32(c) }

// Packet is a packet that a flow has sent to the agent, with the values of its registers at that time.
type Packet struct {
	Class   PacketClass
	Note    []byte // set by the flow
	Port    uint32 // OpenFlow number of the ingress port
	Out     uint32 // OpenFlow number of the output port; 0: not known yet
	VRF     uint16 // 0: not known yet
	Network uint16 // tag of the ingress network; 0: not known yet
	Reason  Reason // why it is dropped; 0: it is not
	Data    []byte // the frame
}

// PacketOf parses a packet that the switch has sent; ok is false for one without a class, which is not the pipeline's.
func PacketOf(in openflow.PacketIn) (p Packet, ok bool) {
	if len(in.UserData) == 0 {
		return Packet{}, false
	}
	return Packet{
		Class:   PacketClass(in.UserData[0]),
		Note:    in.UserData[1:],
		Port:    in.InPort(),
		Out:     regOut.of(in.Match),
		VRF:     uint16(regVRF.of(in.Match)),
		Network: uint16(regNetwork.of(in.Match)),
		Reason:  Reason(regReason.of(in.Match)),
		Data:    in.Data,
	}, true
}
