// Package k8splugin is the CNI server of a node: it gives containers their
// interface on a contiv network.
//
// A container runtime runs the program contivk8s once per container and
// command; the program hands the command to this server over a unix socket
// (package cniwire) and prints what comes back. The work is done here, in the
// agent, which knows the datapath.
//
//	runtime --> contivk8s --unix socket--> Server --+--> Master    address, endpoint record
//	                                                +--> Datapath  switch port, flows
//	                                                +--> podlink   interface in the container
//	                                                +--> attachment checkpoint on disk
//
// ADD is a saga. Its checkpoint is on disk before its first effect; the switch
// port is made while the master allocates the address; then flows, and only
// behind them the interface; then the checkpoint becomes the promise "ready"
// and the runtime gets its answer. If a step fails, or the server dies between
// two, everything is undone: at once where possible, else by a worker that
// does not give up, whose memory is the checkpoint in state "deleting". DEL is
// the same undoing, so it needs nothing but the checkpoint: no labels, no API
// server, no network namespace, and not even the master, who hears of it when
// it is back.
//
// Both are idempotent. An ADD repeated with the same arguments gets the stored
// result if the interface is still as it was; whatever else is found under the
// same attachment, or in the way in the same namespace, is a leftover and is
// undone first. Commands about one attachment are carried out one at a time.
//
// The endpoint's identity within its network is the container id, under
// Kubernetes K8S_POD_INFRA_CONTAINER_ID if the runtime passes one. Every
// further interface of the same container has "@<interface>" behind it, as an
// endpoint has one address; eth0 has not, so that tools find it by container.
package k8splugin
