// Package openflow speaks OpenFlow 1.3 with Open vSwitch.
//
// Its user is an agent that computes the flows it wants and makes a local switch have exactly those.
// That decides its shape:
//
//   - Values first. A Flow, Group or Meter is a plain value that can be compared, printed
//     as ovs-ofctl prints it, sent to a switch and read back unchanged. The difference
//     between desired and actual state is the difference of two sets of values.
//   - Fields are data. One table (fields.go) names every match field with its
//     wire header, width, prerequisites and text form; matching, set_field,
//     load, move, encoding, decoding and printing are all driven by it.
//   - A change is a bundle: either all of its messages take effect or none, and an
//     error names the message that the switch refused (bundle.go).
//   - The peer is not trusted. All input is bounded in size and validated; malformed
//     input yields an error, never a panic. No call waits for ever: each
//     has a context, and each connection probes its peer.
//
// It uses version 1.3 (wire 0x04), not 1.5: the later features that it needs (bundles, conjunctions,
// conntrack) exist for 1.3 as ONF or Nicira extensions, every deployed bridge has 1.3 enabled, and
// Open vSwitch calls its 1.5 support incomplete.
//
// Reading order of the files:
//
//	field.go fields.go match.go   match fields and matches
//	action*.go                    actions
//	flow.go group.go meter.go     objects in the switch
//	flowentry.go stream.go        how hundreds of thousands of flows are read
//	message.go and its kin        messages about them
//	packet.go nicira.go           packet-in and packet-out
//	conn.go bundle.go client.go   connections, requests and timeouts
package openflow
