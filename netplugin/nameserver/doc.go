// Package nameserver answers the questions of endpoints for names.
//
// Names belong to tenants. An endpoint asks, and is answered from what its own
// tenant has: services, endpoint groups, containers. Whether a name of another
// tenant exists is not told. All else is asked of the name servers of the node,
// in the endpoint's place.
//
//	question --> Server --> Zones     a name of the asker's tenant: answered here
//	               |          |
//	               |          +-----> below the domain, or of one label: does not exist
//	               +--> Forwarder --> cache --> upstream
//
// A tenant's names, of which the first that there is counts:
//
//	SERVICE          the address of the service
//	GROUP            the addresses of all endpoints of the group
//	CONTAINER        the address of the container of that name, or id
//	each as it is, and with .TENANT.Domain behind it
//	NAME.SERVICE, providers.SERVICE, both with .TENANT.Domain
//	                 the addresses of a provider of the service, of all
//	_PORT._PROTO.SERVICE     SRV: the port and name of the service; the same of providers
//	address, reversed        PTR: the service or container that has it
//
// Answers to what comes in datagrams are kept as they were sent, until a name changes (prepared.go).
//
// Zones is made of the same objects as the datapath. It has no I/O; it is written by
// the agent, which follows the store, and read by the server. What is still to come is
// not denied.
//
// A Node has a Server at each Place where endpoints ask: sockets in a network namespace
// behind a port of the bridge, under whose addresses the driver knows who asks.
//
// What keeps the server standing when somebody asks too much: an answer is never
// larger than the asker says he can take, and never above MaxUDP; questions that
// have to be forwarded are limited per asker, per tenant and in all, and the same
// question of many is asked once; the cache is bounded in answers and bytes; connections are
// limited per asker, per tenant and in all, and have deadlines; of the questions of a connection
// only some are forwarded at once.
package nameserver
