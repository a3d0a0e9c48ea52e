// Package objdb is the store: etcd v3, seen the way a controller needs it. It
// is the only package that imports an etcd client.
//
// There are two kinds of users.
//
// Agents follow. A [Mirror] gives one prefix as a level: first everything that
// is there at one revision, then every later revision in order, each as one
// batch. Disconnects, compactions and restarts of the store are not visible to
// the user of a Mirror except as a delay.
//
// The leading netmaster writes. [DB.Campaign] blocks until this process leads
// and returns a [Term]; the term's context ends with the leadership, at the
// latest when the own clock says that the others may have elected somebody
// else. All writes of a term go through its [Ledger]:
//
//	request --> plan (reads, checks, puts) --> queue --> committer --> etcd
//	                                              |   run each plan against a
//	                                              |   copy of the cache, then
//	                                              |   commit all of them in one
//	                                              +-- Txn: If{fence, revisions}
//	                                                       Then{puts, deletes}
//
// Plans are functions in memory, so a hundred of them cost one round trip; the
// guards of the transaction make it safe against another leader (the fence: the
// candidate key of this term still exists) and against other writers (the
// revision of each key that was read or written). No lock protects what these
// compares protect.
//
// Those who are told of changes by the leader read a [Feed]: the recent past of
// a prefix, kept once for all of them.
//
// Both daemons announce themselves with [DB.Register], a lease with keys that
// disappear when the process does. Single reads and small transactions of
// agents use [DB.Get], [DB.List] and [DB.Txn].
//
// Errors are of package fault: NotFound, Unavailable (names the endpoints;
// retrying helps), NotLeader, Conflict, Denied, TooLarge.
package objdb
