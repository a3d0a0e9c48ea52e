// Package objdb is the store: etcd v3 as a controller needs it. Only this package and those below it import an etcd
// client.
//
// This package has the basics. [Open] returns a [DB]: single reads ([DB.Get], [DB.List]), small guarded
// transactions ([DB.Txn]), and the service registry, in which both daemons announce themselves with
// [DB.Register], a lease with keys that disappear when the process ends. [DB.Campaign] blocks until this
// process leads and returns a [Term]; the term's context ends with the leadership, at the latest when by the
// own clock others may have elected another leader. [Term.Txn] writes under the fence of the term.
//
// A store can be restored to an older revision, or replaced by another one. [DB.Standing] distinguishes the
// histories of a store; terms end with their history, mirrors and feeds start again.
//
// Above it:
//
//	objdb/mirror    followers: the state of one prefix, and a feed of changes
//	objdb/ledger    the leader: all writes of a term, as plans in memory
//	objdb/embedded  the store itself, as a member in the process
//	objdb/space     room in the store: what is done before it is full
//
// Errors are of package fault: NotFound, Unavailable (names the endpoints; a retry helps), NotLeader, Conflict,
// Denied, TooLarge, Exhausted (the store is full).
package objdb
