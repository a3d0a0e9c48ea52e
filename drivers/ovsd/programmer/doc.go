// Package programmer makes the flows, groups and meters of a switch equal to the objects that are wanted, and keeps them so.
//
//	objects (Update) --> compile.go --> book.go: what each place should have
//	                                      |
//	switch  --> load, audit.go -------> book.go: what it has
//	                                      |
//	        <-- writer.go <-- bundles <-- books.go: the difference, in order
//
// It knows nothing of bridges, ports and links: what it needs of them it asks by the functions of its Config.
//
// A place is what a switch holds one thing at: of flows a table, priority and match. Several objects may ask for the same
// one, an address that moved from one endpoint to another, for example; book.go and kinds.go tell what is in force then,
// conflicts.go and overflow.go who is told of it.
//
// What is written together and in which order, so that packets are judged right at any moment, is told in books.go;
// epoch.go tells when connections that were admitted before are judged anew.
//
// Nothing is written before the objects have been given as a whole. Somebody may change what is in the switch: an audit
// finds that (audit.go, auditor.go).
//
// A flow that the switch refuses must not keep others out: a refused bundle is halved until the refused object is alone
// (writer.go). Its Sync returns the refusal, as do those that share a place with it (answerable.go), and it is tried again
// later. A switch that does not answer is another matter (stall.go, silence.go).
//
// When something goes, its connections, which the switch tracks, are ended: ctflush.go, ctflush_endpoints.go, and
// flushpace.go, which leaves the switch its time. Flows that the switch learns by itself are in learned.go.
package programmer
