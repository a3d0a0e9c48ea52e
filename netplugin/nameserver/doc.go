// Package nameserver is the DNS server for the endpoints of a node.
//
// Names belong to tenants. A query of an endpoint is answered from the names of its own
// tenant: services, endpoint groups, containers. Whether another tenant has a name is not
// told. All other queries are forwarded to the name servers of the node.
//
//	question --> Server --> Zones     a name of the client's tenant: answered here
//	               |          |
//	               |          +-----> below the domain, or of one label: does not exist
//	               +--> Forwarder --> cache --> upstream
//
// A tenant's names, in the order in which they are looked up:
//
//	SERVICE          the address of the service
//	GROUP            the addresses of all endpoints of the group
//	CONTAINER        the address of the container of that name, or id
//	each as it is, and with .TENANT.Domain behind it
//	NAME.SERVICE, providers.SERVICE, both with .TENANT.Domain
//	                 the addresses of a provider of the service, or of all of them
//	_PORT._PROTO.SERVICE     SRV: the port and name of the service; the same of providers
//	address, reversed        PTR: the service or container that has it
//
// Answers over UDP are kept as they were sent, until a name changes (prepared.go).
//
// Zones is made of the same objects as the datapath. It has no I/O; the agent, which follows
// the store, writes it, and the server reads it. While objects of the store are still to come,
// a missing name is SERVFAIL, not NXDOMAIN.
//
// A Node has a Server at each Place where endpoints send queries: sockets in a network namespace
// behind a port of the bridge. The driver knows the endpoint of each source address there.
//
// Limits against clients that send too many queries:
//
//   - An answer is never larger than the client accepts, nor over UDP than MaxUDP.
//   - Forwarded queries are limited per client, per tenant and in all, and the same query of
//     several clients is forwarded once.
//   - The cache is bounded in answers and bytes.
//   - Connections are limited per client, per tenant and in all, and have deadlines. Of the
//     queries of one connection only some are forwarded at the same time.
package nameserver
