// Package bgp is the BGP speaker of a node: it announces the addresses of the node to external routers, and learns
// routes from them.
//
//	Configure, Announce  -->  +---------+  <== TCP 179 ==>  neighbours
//	                          | Speaker |
//	Changes              <--  +---------+
//
// The library gobgp implements the protocol, inside the process; its own management interface is not started. This
// package adds:
//
//   - Only routes of the node itself are announced, none from a neighbour to another
//     one: a node forwards no transit traffic.
//   - Routes are stored by prefix with all equally good next hops (ECMP). The number of
//     routes of a neighbour is limited; a neighbour that exceeds the limit is closed for
//     some minutes, with a log line, as routers do.
//   - Restarts of the node and of the neighbours are graceful (RFC 4724). The speaker
//     ends without a NOTIFICATION, so that neighbours retain its routes until it is back.
//     Routes of an earlier run are recalled: they are stale until their neighbour has sent
//     End-of-RIB, for two minutes at most. When the hold time expires the routes of a
//     neighbour are removed: silence does not count as a restart.
//   - However often a route changes, the reader of Changes receives it once per
//     call. Neighbours are read only as fast as their changes are processed.
//
// Files:
//
//	speaker.go     the speaker's loop
//	session.go     the library's server under one configuration; withdraw.go: routes are withdrawn before a session ends
//	events.go      what the library reports: paths, and states of neighbours
//	table.go       the routes
//	pace.go        flow control of neighbours that change too many routes
//	flaps.go       sessions that flap
//	log.go         the library's log, with what is read from it; warnings.go limits its warnings
//	causes.go      why there is no session, in words; unanswered.go: neighbours that accept a connection and send nothing
package bgp
