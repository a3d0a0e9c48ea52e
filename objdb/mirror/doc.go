// Package mirror follows the store.
//
// A [Mirror] delivers the state of one prefix: first a snapshot at one
// revision, then every later revision in order, each as one [Batch].
// The receiver does not see disconnects, compactions and restarts of the store, except
// as a delay. If the store is restored to an older revision, or replaced, the
// receiver gets one batch with the difference.
//
// A [Feed] keeps the recent changes of a prefix in memory, once for any number of readers:
// the watches of the REST interface.
package mirror
