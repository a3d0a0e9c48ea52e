// Package mirror follows the store.
//
// A [Mirror] gives one prefix as a level: first everything that is there at one
// revision, then every later revision in order, each as one [Batch].
// Disconnects, compactions and restarts of the store are not visible to the
// user of a Mirror except as a delay; a store that went back, or is another
// one, as one batch with the difference.
//
// A [Feed] is the recent past of a prefix, kept once for any number of readers
// who are told of changes: the watches of the REST interface.
package mirror
