// Package cluster is the node's side of the cluster: it registers the node, so that other nodes send traffic to
// its VTEP, and it requests endpoints from the leader of the netmasters.
//
// Registration and forwarding are independent. A node whose agent restarts continues to forward, so its
// registration is not withdrawn then: its lease is renewed by the next agent, or expires. Only a node that is
// drained for good withdraws it.
package cluster
