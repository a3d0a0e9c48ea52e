// Package cluster is the node's part in the cluster: it announces the node in
// the registry, so that others send its traffic to the right VTEP, and it asks
// the leading netmaster for endpoints.
//
// Announcement and forwarding are different things. A node that restarts its
// agent goes on forwarding, so its registration is not taken back then: the
// lease either is renewed by the next agent or runs out. Only a node that is
// drained for good withdraws.
package cluster
