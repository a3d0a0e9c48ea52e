// Package hostaccess gives the host itself its place in the cluster's networks.
//
// In each infra network (netctl network create --nw-type infra) every host has an
// endpoint of its own: an interface with the name of the network. It is the end of
// a veth pair whose other end is a port of the switch, as that of a pod is, so the
// pipeline knows nothing of hosts: what a host sends passes the guard, the rules and
// the tunnels like everybody's packets. A veth also outlives ovs-vswitchd; the
// internal port of a userspace bridge, with all its routes, does not.
//
// The interface of the network called contivh1 leads further: the host has routes
// through the network's gateway to all networks of the same tenant. Networks of other
// tenants may have the same addresses, and are not reached.
//
// Where Open vSwitch forwards in user space, the kernel gets a copy of each tunnelled packet; its copies are dropped at the link
// (tunnels.go). Where the kernel forwards, it takes from other nodes only what comes to the port of tunnels (strangers.go).
//
// Events carry no state. One goroutine compares what the store
// wants with what the kernel has, at start, when something has changed in the store or
// somebody has touched what is ours (watch.go), and now and then, and sets right what
// differs (manager.go, link.go).
package hostaccess
