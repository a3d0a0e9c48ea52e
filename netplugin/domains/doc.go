// Package domains knows which addresses the names of domains have that policies have as peers.
//
// Nobody is asked: what counts is what endpoints have been answered, as these are the addresses that they connect to. So
// the switch sends copies of the answers of the cluster's name service (pipeline.PacketAnswer), and the book keeps what they
// say of names that policies are about:
//
//	switch --> Serve --> read --> Listener, whose Book it is
//
// An answer arrives at the endpoint at the same time as here. A connection that begins before the switch knows the
// address is refused; TCP tries again after a second.
package domains
