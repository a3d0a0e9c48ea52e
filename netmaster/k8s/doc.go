// Package k8s brings what Kubernetes says into the state.
//
// The leader follows the API server by informers and writes what agents need: agents
// hold no credentials of it, and work from the store alone.
//
//	pods, namespaces     --informer--> queue --place.go-----> state/k8sPod/<node>/<uid>
//	                                            |
//	                                            +--> an event on the pod, if it is refused
//	services, endpoints  --informer--> queue --services.go--> state/k8sSvc/, k8sBackend/
//	                                         servicetenant.go: which tenant's a service is, when that changes
//	policies             --informer--> queue --policies.go--> state/k8sPolicy/, k8sClass/, k8sEpoch;
//	                                            |             clusterpolicies.go follows those of the cluster
//	                                            +--> an event on the policy, if it is not understood
//	nodes                --informer--> queue --nodes.go-----> state/k8sNode/; taint.go takes their taint away
//	                                         dismiss.go removes nodes that are gone from those that have joined
//	                                         nodeproblems.go: what a node does not serve is an event on the service or pod
//	                                         strays.go removes records that no leader can have written
//
// An informer's event marks an object; a worker then makes its record what the
// caches say, so that it does not matter in which order, how often or how late events
// come. While the API server is away nothing changes. A list that was never complete
// deletes nothing, and one of before (freshlist.go) is not asked for.
package k8s
