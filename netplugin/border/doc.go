// Package border makes a node with uplinks a BGP router, so that
// external routers reach the routed networks of encapsulation vlan.
//
//	agent --> Border --objects, and routes--> driver of the bridge with the uplinks
//	           |   \
//	           |    inb01, an interface of the host at a port of that bridge
//	           |      the kernel answers there for the node's address, and resolves
//	           |      the MACs of routers
//	          BGP speaker, by sockets on that address
//
// A Border is a driver that wraps another one. It passes the agent's wanted objects on, and finds in them what is to
// be announced: the endpoints of this node, and the services with a provider among these. It adds the objects that the
// agent does not know: itself as a router, routes and next hops. Endpoints on another node are reached through that
// node directly, if it is on the same link; otherwise through the learned routes, like other destinations.
//
// A route uses the next hops that are on the link of inb01. Other next hops that a router announces are ignored.
//
// Routes are saved in a file. A restart within the restart time begins with these, as the switch has them;
// routes that the neighbour does not announce again are removed when it has announced all, or after the restart
// time (package bgp). The file also has the configuration and the announced prefixes: a node that starts while
// the store is unreachable continues to announce these, because its switch continues to forward.
//
// An address is announced when the switch has its flows, not before.
//
//	border.go      the driver
//	announcing.go  what is announced to routers, and when
//	linger.go      what is still served until routers have processed its withdrawal
//	loop.go        the goroutine of everything else
//	recall.go      the state that a run saves for the next one
//	link.go        the interface, and the kernel's neighbours; ipv6.go whether it has IPv6
//	rib.go         the routes in use
//	inspect.go     inspection and metrics
package border
