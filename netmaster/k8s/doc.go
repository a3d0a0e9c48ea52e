// Package k8s writes objects of Kubernetes as state records.
//
// The leader watches the API server with informers and writes the records that agents need. Agents
// have no credentials of the API server; they read the store only.
//
//	pods, namespaces     --informer--> queue --pods.go------> state/k8sPod/<node>/<uid>
//	                                            |
//	                                            +--> an event on the pod, if it is refused
//	services, endpoints  --informer--> queue --services.go--> state/k8sSvc/, k8sBackend/
//	                                         servicetenant.go: the tenant of a service, and its changes
//	policies             --informer--> queue --policies.go--> state/k8sPolicy/, k8sClass/, k8sEpoch;
//	                                            |             clusterpolicies.go watches ClusterNetworkPolicies
//	                                            +--> an event on the policy, if a part cannot be converted
//	nodes                --informer--> queue --nodes.go-----> state/k8sNode/; taint.go removes their startup taint
//	                                         dismiss.go ends the membership of deleted nodes
//	                                         nodeproblems.go: events on services and pods that a node does not serve
//	                                         strays.go removes records that no leader can have written
//
// An informer's event queues an object; a worker then computes its record from the
// caches of the informers. So the order, number and delay of events do not
// matter. While the API server is down nothing changes. Records are deleted only after a complete
// list, and informers request a list of the present state (freshlist.go). If the API server is restored from a
// backup, all lists are requested again (restored.go).
//
// The files, by subject:
//
//	the machinery     controller, reconciler, lag, lock, state; strip, freshlist and restored: what informers keep and list
//	pods              pods, podrecord, placement; podprofile, bandwidth, hostports, probed, requestedaddress,
//	                  podaddress: parts of a record; mirrorpod: static pods
//	services          services, servicerecord, servicetenant, servedports; external: addresses, externalowner: whose they are
//	  backends        backends, tenantbackends, unservedbackends, formernames
//	policies          policies, policyversions, policywrite, anypod; netpol: of NetworkPolicies
//	  cluster-wide    clusterpolicies, clusterupdate, clusternetpol
//	  in force        refused, clusterstatus, policystate, floods
//	nodes             nodes, taint, dismiss, nodeproblems
//	a new cluster     firstnetworks, ranges; overlaps: of ServiceCIDRs
//	records           strays: that no leader can have written
//	events            warnings, serviceproblems, eventwriter, eventrepeat
package k8s
