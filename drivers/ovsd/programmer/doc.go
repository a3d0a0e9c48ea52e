// Package programmer makes the flows, groups and meters of a switch match the wanted objects, and keeps them so.
//
//	objects (Update) --> compile.go --> book.go: what each place should have
//	                                      |
//	switch  --> load, audit.go -------> book.go: what it has
//	                                      |
//	        <-- writer.go <-- bundles <-- books.go: the difference, in order
//
// It has no knowledge of bridges, ports and links: what it needs of them it gets by the functions of its Config.
//
// The goroutine of Programmer.Run owns all of it: the books, the connection (connection.go), the auditor, the flusher of
// connections (ctflush_send.go) and what the underlay carries (abilities.go). Other goroutines reach it by the inbox only,
// and those that it starts, to read a slice of an audit or the underlay's MTU, answer by a channel.
//
// A place is where a switch holds one item: of flows a table, priority and match. Several objects may claim the
// same one, for example an address that moved from one endpoint to another; book.go and kinds.go decide which
// item is in force then, conflicts.go and overflow.go report the others.
//
// books.go describes what is written together and in which order, so that rules apply to packets correctly at
// any moment; epoch.go when admitted connections are evaluated again.
//
// Nothing is written before the objects are complete. Other programs may change the switch: an audit
// finds that (audit.go, auditor.go).
//
// A flow that the switch refuses must not delay others: a refused bundle is halved until the refused object is
// alone (writer.go). Its Sync returns the refusal, as do those that share a place with it (answerable.go), and
// it is retried later. A switch that does not answer is another case (stall.go, silence.go).
//
// When an endpoint or provider is removed, its connections, which the switch tracks, are ended:
// ctflush.go, ctflush_endpoints.go, ctflush_send.go, and flushpace.go, which limits the switch's
// time for it. Flows that the switch learns by itself are in learned.go.
package programmer
