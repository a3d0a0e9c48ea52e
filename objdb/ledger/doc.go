// Package ledger is how the leading netmaster writes: all writes of a term go
// through its [Ledger].
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
package ledger
