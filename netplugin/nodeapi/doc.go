// Package nodeapi serves the node's own REST routes: what the agent and the
// switch think (/inspect/..., /svcstats), what was dropped (/inspect/drops), the trace of a
// packet (/inspect/trace), whether the node is alive and ready,
// its metrics, and one route, for the node itself only, to give up an endpoint
// that no container uses.
//
// Routes and shapes under /inspect and /svcstats are those tools of the
// original agent read; what this agent does not have is present and empty.
package nodeapi
