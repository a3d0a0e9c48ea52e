// Package openflow speaks OpenFlow 1.3 with Open vSwitch.
//
// It is written for one kind of user: an agent that computes the flows it
// wants and makes a local switch have exactly those. That decides its shape:
//
//   - Values first. A Flow, Group or Meter is a plain value that can be
//     compared, printed as ovs-ofctl prints it, sent to a switch and read back
//     from one, and stays equal on the way. The difference between what is
//     wanted and what is there is then a difference of two sets of values.
//   - Fields are data. One table (fields.go) names every match field with its
//     wire header, width, prerequisites and text form; matching, set_field,
//     load, move, encoding, decoding and printing are all driven by it.
//   - A change is a bundle: all of its messages take effect or none, and an
//     error names the message the switch refused (bundle.go).
//   - Nothing is believed. Whatever the peer sends is bounded in size and
//     checked; garbage is an error value, never a crash. Nothing waits for
//     ever: each call has a context, each connection probes its peer.
//
// Version 1.3 (wire 0x04) is spoken rather than 1.5: the needed later features
// (bundles, conjunctions, conntrack) exist for it as ONF or Nicira extensions,
// it is what every bridge in the field has enabled, and Open vSwitch
// calls its 1.5 incomplete.
//
// From values to the wire, the files are read in this order:
//
//	field.go fields.go match.go   what a packet can be matched on
//	action*.go                    what can be done with it
//	flow.go group.go meter.go     what is kept in the switch
//	flowentry.go stream.go        how hundreds of thousands of flows are read
//	message.go and its kin        what is said about it
//	packet.go nicira.go           packets the switch sends to us, and back
//	conn.go bundle.go client.go   who says it, and what if nobody answers
package openflow
