// Package history checks whether a cluster of netmasters kept its guarantees while many clients used it and its
// leaders were killed.
//
// A run starts three netmasters, each with a member of the store, and lets clients carry out thousands of random
// operations. The requests and responses of every client, with their times, are one record; every change of the
// store, in the order of its revisions, is the other. Afterwards the two are compared with each other and with the
// specification:
//
//	operations (mix.go, generate*.go)  sent by clients (client.go, run.go)
//	        |                               to a cluster that is disturbed (cluster.go, disturb.go, store.go),
//	        |                               and is at rest in the end (rest.go)
//	        v
//	calls with answers      changes of the store (log.go, world.go)
//	        |                          |
//	        +------------+-------------+
//	                     v
//	explained.go    every change was asked for, every success is in the store
//	apply.go        an apply happened as a whole or not at all
//	guards.go       a change made for one revision of an object found that one
//	refusals.go     every refusal was justified at some instant of the call
//	registers.go    what clients saw is linearizable, object by object
//	derive*.go      state/ is what obj/ and the endpoints imply
//	unique.go       nothing was assigned twice, at no revision
//	links.go        links are symmetric, in the store and in responses
//	watchers.go     watches reported every change, once and in order
//
// The derivation is written from the specification and shares no code with netmaster. An operation whose response
// was lost may have happened or not; the store decides.
package history
