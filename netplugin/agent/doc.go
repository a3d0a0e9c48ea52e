// Package agent computes the wanted datapath of a node from the state records in the store.
//
// Three mirrors (the state records, the global configuration and the VTEP registry) keep one cache equal to the store.
// The cache is level-triggered: an event only changes a decoded record and marks the datapath objects that depend on
// it dirty. A planner then computes, for every dirty object, its wanted value (wanted.go, a pure function of the
// cache), compares that with the value that was last passed to the driver, and passes the differences as one
// drivers.Change. The same code runs for the first snapshot, for every change and after a gap.
//
//	mirrors --> cache --dirty keys--> planner --Change--> driver
//	              |                                         |
//	   CNI: Attach waits for cache and driver ------------- +
//
// For each tenant that has an endpoint on this node, all its networks, endpoints and rules are wanted, with the flood
// set of each bridged network and the providers of each service; nothing of other tenants is. An object that lacks a
// part, such as an endpoint whose host has no known VTEP, stays pending and is planned again when the part arrives.
//
// Nothing is removed from the switch before the first complete snapshot, or while the store is unreachable: a
// node that is cut off from the store continues to forward.
//
// Two more loops run: the reaper removes switch ports whose endpoint is no longer in the store and that no pod
// uses, and the reporter writes the operational records of the node's endpoints.
//
// Begin with agent.go, cache.go, wanted.go, plan.go and program.go. The other files, by subject:
//
//	the cache         decode and address: what records say; index; presence: which tenants the node programs;
//	                  held: what the store has lost and pods need; renamed: pods of the node's former name
//	nodes             nodes (addresses of machines), peers (tunnel addresses), recallpeers
//	networks          flooding, outside (the way out), bgp, nameserver, limits (of rates)
//	services          service (of netctl); kube, kubeservice and kubeports (of Kubernetes)
//	  at addresses    announced (by the uplink), entrance (by hosts), nodeports, portsatnodes, sharedaddress, standins
//	policies          tiers, rulenumbers, nodepeers, domains; enforced: what the switch has of them
//	the CNI server    attach, kubepod; reap: what it has left
//	hostaccess        host
//	reports           report and reporter: the loop, and what it writes; keptrecord, troubles, kubehealth
//	REST              inspect, counters, ready, metrics
//	helpers           flag
package agent
