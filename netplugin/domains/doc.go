// Package domains tracks the IP addresses of the domain names that policies have as peers, by the DNS answers that
// local endpoints receive: these are the addresses that they connect to, so no name server is queried. The switch
// sends copies of the answers of the cluster's name service (pipeline.PacketAnswer), and the book records those
// for names in policies:
//
//	switch --> Serve --> read --> Listener, the owner of the Book
//
// The endpoint receives an answer at the same time as this package. A connection that begins before the switch has
// a flow for the address is refused; TCP retries after a second.
package domains
