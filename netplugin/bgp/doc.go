// Package bgp is the BGP speaker of a node: it tells the routers outside which
// addresses the node has, and learns from them where everything else is.
//
//	Configure, Announce  -->  +---------+  <== TCP 179 ==>  neighbours
//	                          | Speaker |
//	Changes              <--  +---------+
//
// The protocol is that of the library gobgp, which runs inside the process; its
// own management interface is not started. What is left for this package:
//
//   - Only what the node has itself is announced. What one neighbour says is not
//     told to another: a node is no transit.
//   - Routes are kept by prefix with all next hops that are equally good (ECMP).
//     A neighbour may announce a limited number; who exceeds it is closed for some
//     minutes, with a message, as routers do.
//   - A restart is graceful (RFC 4724), ours and the neighbours'. Sessions are
//     closed without a word, so that neighbours keep our routes while we are away.
//     Routes of an earlier run are recalled: they hold until the neighbour that
//     said them has said everything again, or for two minutes. Silence is no
//     restart: the routes of a neighbour that says nothing for the hold time go.
//   - However often routes change, the reader of Changes sees a route once for
//     each time it looks. Neighbours are read as fast as their changes are taken in.
//
// speaker.go is the life of the speaker, session.go the library's server under one
// configuration, table.go the routes, pace.go what holds up neighbours, flaps.go tells
// of sessions that come and go, log.go what the library says, causes.go why there is no session, in words,
// complaints.go what the library would say too often, unanswered.go what it would not say.
package bgp
