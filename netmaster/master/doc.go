// Package master derives state from intent: it assigns addresses, tags and ids, expands policy rules for each
// group that they apply to, and determines what must be repaired or released when state and intent differ.
//
// Its functions work inside a transaction of the ledger. They read records, get free numbers from the
// allocators of package resources, and put records; a function that returns an error leaves the transaction to
// be dropped, so none of them ever undoes anything. They use no HTTP and no clock.
//
//	model       reading and writing model objects; links: the objects that refer to one
//	index       the indexes of a term; numbers: which addresses, tags and ids are taken
//	global      modes and ranges
//	tenant      vrf
//	network     network, tags, overlap; docker (ids of swarm mode), serviceranges (of Kubernetes)
//	group       group; fabric: what differs in an ACI fabric
//	endpoint    endpoint, moveendpoint; pods: those of Kubernetes
//	address     address: pools and what is taken; allocaddr: before there is an endpoint; cooldown: of pods;
//	            requestedaddress: what pods ask for
//	policy      expand: one rule -> directional rules (pure); binding: policies attached to groups;
//	            epoch: connections are judged anew; order: of the changes of a large plan
//	service     service, selector, provider; entrance: external addresses and node ports
//	bgp         BGP speakers
//	reconcile   repairs at the start of a term and from time to time: one file for each kind, reconcile_addresses,
//	            reconcile_bgp, reconcile_bounds, reconcile_former, reconcile_global, reconcile_lost,
//	            reconcile_numbers, reconcile_profiles, reconcile_rules, reconcile_services
//	node        nodegc: endpoints of nodes that are gone for good; nodereports: what their agents have reported;
//	            noderemoved: those that an operator has removed
package master
