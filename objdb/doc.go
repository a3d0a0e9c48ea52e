// Package objdb is the store: etcd v3, seen the way a controller needs it. It
// and the packages below it are the only ones that import an etcd client.
//
// This package has what the others stand on. [Open] gives a [DB]: single reads
// ([DB.Get], [DB.List]), small guarded transactions ([DB.Txn]), and the service
// registry, in which both daemons announce themselves with [DB.Register], a
// lease with keys that disappear when the process does. [DB.Campaign] blocks
// until this process leads and returns a [Term]; the term's context ends with
// the leadership, at the latest when the own clock says that the others may
// have elected somebody else. [Term.Txn] writes under the fence of the term.
//
// A store can go back, or be replaced by another one. [DB.Standing] tells one
// history of it from the next; terms end with theirs, mirrors and feeds begin anew.
//
// Above it:
//
//	objdb/mirror    followers: one prefix as a level, and a feed of changes
//	objdb/ledger    the leader: all writes of a term, as plans in memory
//	objdb/embedded  the store itself, as a member in the process
//	objdb/space     room in the store: what is done before it is full
//
// Errors are of package fault: NotFound, Unavailable (names the endpoints;
// retrying helps), NotLeader, Conflict, Denied, TooLarge, Exhausted
// (the store is full).
package objdb
