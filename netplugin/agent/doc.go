// Package agent makes a node serve what the store says.
//
// Three mirrors (the state records, the global configuration and the VTEP
// registry) keep one cache equal to the store. The cache is level, not edge:
// an event changes a decoded record and marks the datapath objects that depend
// on it dirty, nothing more. A planner then asks, for every dirty object, what
// it should be now (wanted.go, a pure function of the cache), compares that
// with what the driver was last given and hands over one drivers.Change. The
// same code runs for the first snapshot, for every change and after a gap, so
// there is no second path that could disagree with the first.
//
//	mirrors --> cache --dirty keys--> planner --Change--> driver
//	              |                                         |
//	   CNI: Attach waits for both ends -------------------- +
//
// What is wanted: for each tenant that has an endpoint on this node, all its
// networks, endpoints and rules, of each network that is bridged to whom it
// floods, and of each service who provides it; of other tenants nothing. An
// object that lacks a part, such as an endpoint whose host has no known VTEP,
// stays pending and is looked at again when the part arrives.
//
// Nothing is taken from the switch before the first complete snapshot is here,
// and the store's absence takes nothing away later: a node cut off from its
// controller goes on forwarding with what it knew.
//
// Beside this one direction run two small loops: the reaper removes switch
// ports whose endpoint is no longer in the store and that no pod uses, and the reporter
// writes the operational records of the endpoints served here.
package agent
