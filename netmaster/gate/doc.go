// Package gate is how agents reach the store: through any netmaster, in the part of
// etcd's own protocol that package objdb speaks (KV.Range, KV.Txn, Watch, Lease), with
// the certificate of their node. Netmasters alone have the credentials of the store.
//
//	who.go      connections of nodes: certificate, record, removal
//	scope.go    which records a node may see
//	index.go    the state as far as that depends on it, followed by one mirror
//	recent.go   the last changes, once for all watches
//	reads.go    ranges, filtered; watches.go, streams.go streams of changes, filtered
//	writes.go   what a node may write, checked against its record; leases.go its leases, renewals.go their renewals
//	entries.go  its registrations; ends.go the tunnel ends of nodes
//	limits.go   how much of all that a node may have
//
// A node sees global records, those of the tenants that it serves, and its own. It serves
// a tenant while an endpoint of it is homed there, and for a while after; and, as all others
// do, while the tenant has a service that hosts lead to. The gate judges an
// answer with an index that is at least as new as the answer, and a watch with what
// the node served at the revision at which the watch begins. When a node comes to serve
// another tenant, the older records of that are not in its watches: these end as
// compacted, and the node lists again, as it does after every gap. When a tenant is
// not served any more they end likewise; a node that lists through one gate and
// watches through another may keep what it has of such a tenant until it serves the tenant again, and lists then.
//
// All watches of all nodes are fed from one watch in etcd. A watch that asks for
// more than is kept here, and one that reads too slowly, end as compacted.
//
// The number of a lease begins with a hash of its node's name, so that every netmaster
// knows whose it is.
//
// etcd has a proxy of its own, server/v3/proxy/grpcproxy. It is not used: it joins watches
// that have the same range and gives all of them the same events, so that there is no
// place where one is left out for some; it caches reads that need not be linearizable, of
// which there are none; and it passes on whatever else the protocol can do, which is what
// the attacks on etcd's own rights were made of.
package gate
