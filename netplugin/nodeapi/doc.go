// Package nodeapi serves the node's own REST routes: the state of agent and switch (/inspect/..., /svcstats),
// dropped packets (/inspect/drops), the trace of a packet (/inspect/trace), liveness and readiness, metrics,
// and one route, for clients on the node only, to release an endpoint that no container uses.
//
// Routes and JSON under /inspect and /svcstats are those of the original agent, for its tools; fields that this
// agent does not have are present and empty.
package nodeapi
