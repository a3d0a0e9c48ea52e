// Package master derives state from intent: it assigns addresses, tags and ids, expands policy rules for each
// group that they apply to, and determines what must be repaired or released when state and intent differ.
//
// Its functions work inside a transaction of the ledger. They read records, get free numbers from the
// allocators of package resources, and put records; a function that returns an error leaves the transaction to
// be dropped, so none of them ever undoes anything. They use no HTTP and no clock.
//
//	model.go      reading and writing model objects
//	numbers.go    which addresses, tags and ids are taken; index.go the indexes for that
//	network.go    a network's record: subnets, tags
//	group.go      a group's record: id, address range, QoS
//	endpoint.go   endpoints; address.go where their addresses come from
//	expand.go     one rule -> directional rules (pure)
//	binding.go    policies attached to groups
//	service.go    services: virtual address; provider.go their providers
//	bgp.go        BGP speakers; fabric.go what differs in an ACI fabric;
//	docker.go     docker's ids of networks in swarm mode
//	reconcile.go  repairs at the start of a term and from time to time
//	nodegc.go     endpoints of nodes that are gone for good
package master
