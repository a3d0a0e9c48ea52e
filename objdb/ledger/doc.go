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
//
// # Goroutines
//
// Callers submit plans by a Ledger and read the committed state. The committer's goroutine owns the cache and all that
// follows from it (committer.go, follow.go, decided.go). The preparer's runs large plans (large.go), the mirror's
// receives what others write. What they share is in shared.go; nothing else is reached from another goroutine, except
// in a function that the committer runs for the preparer (preparer.inCommitter).
//
// # Large plans
//
// A plan that takes long would delay all others. It therefore runs beside
// the committer, on the state at its start. If it fits into one
// transaction and nothing that it has read, searched or written has changed
// meanwhile, it is committed like any other. One that does not fit goes through
// a journal:
//
//  1. its changes are stored in the journal
//  2. the mark "prepared" is put; its revision is that of the plan
//  3. when the watch has delivered all writes up to that revision, and nothing
//     the plan has read, searched or written has changed, the mark "committed"
//     is put: the plan is committed, for all readers of the ledger at once
//  4. its changes are written to their keys, some hundred in a transaction, each with a
//     note of the progress
//  5. the journal is deleted
//
// If in step 3 something has changed that the plan has used, it runs again. After two
// tries, other plans that would change what it has used wait until it is committed or
// fails; in the last try all other plans wait. So it cannot starve. During step 4
// other plans run between its transactions, on the state that includes it. A plan that
// has read or written a key that is not stored yet waits until it is: so the store never
// has a key from a later plan before the same key from this one, and guards compare with
// revisions that exist. Writes of others that bypass the ledger, after the revision of the plan,
// override it.
//
// A plan with the mark "committed" is completed: by this term, or by the next one before it
// reads anything else. Without the mark no key has changed, and the journal is dropped. A
// journal that cannot be read is moved aside.
//
// # The beginning of a term
//
// A ledger begins with the state of a [Standby], which has followed the same
// prefixes until the term was won. If there is none, or it has not received
// all writes before the term, the ledger begins with a listing.
package ledger
