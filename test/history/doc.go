// Package history asks whether a cluster of netmasters kept its promises
// while many clients worked with it and its leaders were killed.
//
// A run starts three netmasters, each with a member of the store, and lets
// clients carry out thousands of random operations against them. What every
// client sent and was answered, and when, is one record; every change of the
// store, in the order of its revisions, is the other. Afterwards the two are
// held against each other and against what the specification says:
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
//	guards.go       a change made for one revision of an object met that one
//	refusals.go     every refusal was justified at some instant of the call
//	registers.go    what clients saw is linearizable, object by object
//	derive*.go      state/ is what obj/ and the endpoints imply
//	unique.go       nothing was given twice, at no revision
//	links.go        links are symmetric, stored and as answered
//	watchers.go     who watched was told every change, once and in order
//
// The derivation is written from the specification and shares no code with
// netmaster. An operation whose answer was lost may have happened or not; the
// store says which.
package history
