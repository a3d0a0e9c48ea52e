// Package border makes a node with uplinks a router among those outside, so that
// routed networks of encapsulation vlan are reached from there.
//
//	agent --> Border --objects, and routes--> driver of the bridge with the uplinks
//	           |   \
//	           |    inb01, an interface of the host at a port of that bridge
//	           |      the kernel answers there for the node's address, and finds
//	           |      the MACs of routers
//	          BGP speaker, by sockets on that address
//
// A Border is a driver with another one behind it. It passes on what the agent wants,
// and reads from that what is to be announced: the endpoints of this node, and the services
// that have a provider among them. It adds what the agent does not know: itself as a router, routes and next hops. Endpoints on
// another node are sent to that node without a detour, if it is on the same link;
// otherwise routes lead to them, as to everybody.
//
// A route is used by those next hops that are on the link of inb01. Others that a router
// may name are ignored.
//
// Routes are kept in a file. A restart within the restart time begins with those, as the
// switch has them; routes that the neighbour does not announce again go when it has announced
// all, or after the restart time (package bgp). The file also has what was wanted and announced: a
// node that starts while the store is away goes on announcing that, as its switch goes on forwarding.
//
// An address is announced when the switch has its flows, not before.
//
//	border.go      the driver
//	announcing.go  what is announced to routers, and when
//	linger.go      what is still served until routers have heard of its end
//	loop.go        the goroutine of everything else
//	recall.go      what a run leaves to the next one
//	link.go        the interface, and the kernel's neighbours; ipv6.go whether it speaks IPv6
//	rib.go         the routes in force
//	inspect.go     what people and metrics are told
package border
