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
// # Large plans
//
// A plan that takes long would keep everybody waiting. It therefore runs beside
// the committer, on the state of the moment it began. If it fits into one
// transaction and nothing that it has read, searched or written has changed
// meanwhile, it is committed like any other. One that does not fit goes by way of
// a journal:
//
//  1. its changes are stored in the journal
//  2. the mark "prepared" is put; its revision is that of the plan
//  3. when all that others wrote up to that revision has arrived, and nothing
//     the plan has read, searched or written has changed, the mark "committed"
//     is put: the plan has happened, for all readers of the ledger at once
//  4. its changes are stored, some hundred keys at a time, what is put with a note
//     how far that gets
//  5. the journal is deleted
//
// In 3 a change that the plan did not see makes it run again. After two tries
// the plans of others wait that change what it has used, in the last try all do,
// until it is decided: so it cannot starve. In 4
// the plans of others run on the state that includes it, between its
// transactions. One that has read or written a key that is not stored yet waits
// until it is, so that the store never has a key from a later plan before the
// same key from this one, and guards compare with revisions that exist. Writes
// past the ledger after the revision of the plan win over it.
//
// From the mark "committed" on the plan is tried until it is stored: by this
// term, or by the next one before it reads anything. Without the mark nothing of
// it has happened, and the journal is dropped. A journal that cannot be read is
// moved aside.
//
// # The beginning of a term
//
// A ledger begins with the state of a [Standby], which has followed the same
// prefixes until the term was won, and with a listing where there is none or it
// has not received everything that was written before the term.
package ledger
