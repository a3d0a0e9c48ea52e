// Package domains tracks the IP addresses of the domain names that policies have as peers, by the DNS answers that local
// endpoints receive: these are the addresses that they connect to, so no name server is asked. The switch sends copies of
// the answers of the cluster's name service (pipeline.PacketAnswer), and the book keeps what they say of names in policies:
//
//	switch --> Serve --> read --> Listener, whose Book it is
//
// An answer arrives at the endpoint at the same time as here. A connection that begins before the switch knows the
// address is refused; TCP tries again after a second.
package domains
