// Package master turns intent into state: it decides who gets which address,
// tag and id, what a policy rule means for each group it applies to, and what
// must be repaired or given back when state and intent no longer agree.
//
// Its functions work inside a transaction of the ledger. They read records, ask
// the allocators of package resources for what is free, and put records; a
// function that returns an error leaves the transaction to be thrown away, so
// none of them ever undoes anything. They know no HTTP and no clock.
//
//	model.go      reading and writing model objects
//	numbers.go    which addresses, tags and ids somebody has; index.go the indexes that tell
//	network.go    a network's record: subnets, tags
//	group.go      a group's record: id, address range, QoS
//	endpoint.go   endpoints; address.go where their addresses come from
//	expand.go     one rule -> directional rules (pure)
//	binding.go    policies attached to groups
//	service.go    services: virtual address; provider.go who stands behind them
//	bgp.go        BGP speakers; fabric.go what differs in an ACI fabric;
//	docker.go     what docker has in swarm mode
//	reconcile.go  repairs at the start of a term and from time to time
//	nodegc.go     endpoints of nodes that went away for good
package master
