// Package gate serves the store to agents, in every netmaster. It implements the part of
// etcd's protocol that package objdb uses (KV.Range, KV.Txn, Watch, Lease), authenticates
// agents by the certificate of their node, and decides which records they may read and write. Only netmasters have credentials of
// etcd itself.
//
//	who.go      connections of nodes: certificate, record, removal
//	scope.go    for each prefix, which nodes may see a record; visible.go: whether one node may
//	serving.go  which tenants a node serves; served.go: whether its listing had their records
//	index.go    the records on which this depends, from one mirror
//	recent.go   the last changes, kept once for all watches
//	reads.go    ranges, filtered; watches.go, streams.go watches, filtered
//	writes.go   what a node may write, checked against its record; leases.go its leases, renewals.go their renewals
//	entries.go  its registrations; ends.go the tunnel addresses of nodes
//	limits.go   limits of a node's requests, reads and connections
//
// A node sees global records, those of the tenants that it serves, and its own. It serves a tenant while the tenant
// has an endpoint on it, and for a while after that. All nodes serve a tenant that has a service which hosts reach.
//
// An answer is filtered with an index that is at least as new as the answer; a watch is filtered by the tenants that
// the node served at the revision at which the watch begins. When a node begins to serve another tenant, its watches
// lack the older records of that tenant: they end as compacted, and the node lists again, as it does after every
// gap. A watch continues if the tenant returns before it is dropped here, and the watch has begun while the node had an
// endpoint of it. Watches end in the same way when a tenant is not served any more. A node that lists through one gate and watches
// through another may keep records of such a tenant until it serves the tenant again, and lists then.
//
// One watch in etcd feeds all watches of all nodes. A watch that asks for older changes than are kept here, and one
// that reads too slowly, end as compacted.
//
// The id of a lease begins with a hash of its node's name, so that every netmaster knows its owner.
//
// etcd's own proxy, server/v3/proxy/grpcproxy, is not used. It merges watches of the same range and sends all of
// them the same events, so events cannot be filtered by node; it caches serializable reads, which agents do not use;
// and it forwards the rest of the protocol, which attacks on etcd's own access control have used.
package gate
