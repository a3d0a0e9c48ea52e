// Package nameserver is the DNS server for the endpoints of a node.
//
// Names belong to tenants. A query of an endpoint is answered from the names of its own tenant: services, endpoint
// groups, containers. An answer never reveals whether another tenant has a name. All other queries are forwarded
// to the name servers of the node.
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
//	each without and with .TENANT.Domain appended
//	NAME.SERVICE, providers.SERVICE, both with .TENANT.Domain
//	                 the addresses of a provider of the service, or of all of them
//	_PORT._PROTO.SERVICE     SRV: the port and name of the service; the same for providers
//	address, reversed        PTR: the service or container with the address
//
// Answers over UDP are cached in encoded form until a name changes (prepared.go).
//
// Zones is built from the same objects as the datapath. It has no I/O; the agent, which watches the store, writes
// it, and the server reads it. Until all objects of the store are known, a missing name is SERVFAIL, not NXDOMAIN.
//
// A Node has a Server at each Place where endpoints send queries: sockets in a network namespace behind a port of
// the bridge. The driver knows the endpoint of each source address there.
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
