// Package life tests the life cycle of pods in a real cluster while its daemons restart. It needs what `make
// k8s-build` builds, and minutes: `make e2e-k8s`.
package life

import (
	"context"
	"fmt"
	"net/http"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

type object = map[string]any

// pod is a pod as read from the API server.
type pod struct {
	Metadata struct {
		Name              string
		DeletionTimestamp *string
	}
	Spec   struct{ NodeName string }
	Status struct{ PodIP string }
}

const podsPath = "/api/v1/namespaces/default/pods"

// podImage has tools; podCommand accepts connections to podPort, and holds them.
const (
	podImage = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	podPort  = 80
)

var podCommand = []string{"nc", "-d", "-l", "-k", fmt.Sprint(podPort)}

// create creates a pod on a node; hostPort 0: none.
func create(ctx context.Context, api *cluster.API, name, node string, hostPort int) error {
	return api.Do(ctx, http.MethodPost, podsPath, podOn(name, node, hostPort), nil)
}

// podOn returns a pod on a node, bypassing the scheduler; hostPort 0: none.
func podOn(name, node string, hostPort int) object {
	container := object{"name": "c", "image": podImage, "command": podCommand}
	if hostPort != 0 {
		container["ports"] = []object{{"containerPort": podPort, "hostPort": hostPort, "protocol": "UDP"}}
	}
	return object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name},
		"spec": object{"nodeName": node, "containers": []object{container}, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
			"tolerations": []object{{"operator": "Exists"}}},
	}
}

// remove deletes a pod; force: without waiting for its node.
func remove(ctx context.Context, api *cluster.API, name string, force bool) error {
	options := object{}
	if force {
		options["gracePeriodSeconds"] = 0
	}
	return api.Do(ctx, http.MethodDelete, podsPath+"/"+name, options, nil)
}

// list returns the pods of a namespace; "": of all.
func list(ctx context.Context, api *cluster.API, namespace string) ([]pod, error) {
	path := "/api/v1/pods"
	if namespace != "" {
		path = "/api/v1/namespaces/" + namespace + "/pods"
	}
	var all struct{ Items []pod }
	err := api.Do(ctx, http.MethodGet, path, nil, &all)
	return all.Items, err
}

func get(ctx context.Context, api *cluster.API, name string) (p pod, err error) {
	err = api.Do(ctx, http.MethodGet, podsPath+"/"+name, nil, &p)
	return p, err
}

// attached returns an error if a pod has no address yet.
func attached(p pod, err error) error {
	if err == nil && p.Status.PodIP == "" {
		err = fmt.Errorf("pod %s on %s has no address yet", p.Metadata.Name, p.Spec.NodeName)
	}
	return err
}
