// Package hostaccess connects the host itself to the cluster's networks.
//
// In each infra network (netctl network create --nw-type infra) every host has an endpoint of its own: an
// interface with the name of the network. It is one end of a veth pair whose other end is a port of the switch, as
// for a pod, so the pipeline needs no special case for hosts: their packets pass the guard, the rules and the
// tunnels like all others. A veth also outlives ovs-vswitchd; the internal port of a userspace bridge, with all
// its routes, does not.
//
// The host also has routes by the interface of the network called contivh1, through the network's gateway, to all
// networks of the same tenant. Networks of other tenants may have the same addresses, and are not reached.
//
// Where Open vSwitch forwards in user space, the kernel receives a copy of each tunnelled packet, which is dropped
// at the link (tunnels.go). Where the kernel forwards, it accepts tunnelled packets only from other nodes
// (strangers.go).
//
// Events carry no state. One goroutine compares the wanted state in the store with the state of the kernel, at the
// start, after changes in the store or of the managed objects (watch.go), and at intervals, and corrects
// differences (manager.go, link.go).
package hostaccess
