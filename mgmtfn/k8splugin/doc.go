// Package k8splugin is the CNI server of a node: it gives containers their
// interface on a contiv network.
//
// A container runtime runs the program contivk8s once per container and
// command; the program sends the command to this server over a unix socket
// (package cniwire) and prints the response. The server is part of the agent,
// which programs the datapath.
//
//	runtime --> contivk8s --unix socket--> Server --+--> Master    address, endpoint record
//	                                                +--> Datapath  switch port, flows
//	                                                +--> podlink   interface in the container
//	                                                +--> attachment checkpoint on disk
//
// ADD writes its checkpoint to disk before its first effect. The switch port is
// made while the master allocates the address. Then the flows are written, the
// interface comes up, the checkpoint becomes "ready", and the runtime gets the
// result. If a step fails, or the server dies between two, everything is undone:
// at once where possible, else by a worker that retries until it succeeds; its
// queue are the checkpoints in state "deleting". DEL is the same undo. It needs
// only the checkpoint: no labels, no API server, no network namespace, and not
// the master, where the endpoint is deleted when it is back.
//
// Both are idempotent. A repeated ADD with the same arguments gets the stored result if the interface is
// unchanged; any other attachment under the same key, or conflicting in the same namespace, is a leftover and is
// undone first. Commands about one attachment are serialized.
//
// The endpoint's id within its network is the container id, under Kubernetes K8S_POD_INFRA_CONTAINER_ID if the
// runtime passes one. Further interfaces of the same container append "@<interface>", since an endpoint has one
// address; eth0 does not, so that tools can find the endpoint by container.
package k8splugin
