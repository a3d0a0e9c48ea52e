package checkup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// tolerated is how many seconds a change of Kubernetes may wait before agents are notified.
const tolerated = 10

// checkKubernetes reports how Kubernetes is watched and served, if there is one. Problems have the wording of
// events.
func checkKubernetes(k *contivmodel.KubernetesStatus, nodes []contivmodel.NodeStatus, report Report) {
	if k == nil {
		return
	}
	report.check("kubernetes", "pods that are known go on, and can be attached; see the log of the leading netmaster",
		"followed, "+waiting(k), lagging(k))
	report.check("kubernetes nodes", "an agent's --host is its node's name in Kubernetes; does netplugin run there, or is the node gone for good?",
		fmt.Sprintf("%d, each with an agent", len(k.Nodes)), mismatch(k.Nodes, nodes))
	report.check("kubernetes services", "", served(k.Services, k.Unserved), nil)
	for _, t := range k.Troubles {
		report(Result{Name: t.Object, Detail: t.Reason, Hint: t.Message})
	}
	if k.Untold > 0 {
		report(Result{Name: "kubernetes", Detail: fmt.Sprintf("%d more objects have troubles", k.Untold), Hint: "see their events"})
	}
}

func waiting(k *contivmodel.KubernetesStatus) string {
	if k.Waiting == 0 {
		return "nothing waits"
	}
	return fmt.Sprintf("%d changes wait", k.Waiting)
}

func lagging(k *contivmodel.KubernetesStatus) error {
	if k.Problem != "" {
		return errors.New(k.Problem)
	}
	return unless(k.Behind <= tolerated, "%s, the first for %d s", waiting(k), k.Behind)
}

// mismatch returns an error that names nodes without an agent, and agents without a node.
func mismatch(names []string, nodes []contivmodel.NodeStatus) error {
	var without, strangers []string
	agents := map[string]bool{}
	for _, n := range nodes {
		if n.Registered {
			agents[n.Host] = true
			if !slices.Contains(names, n.Host) {
				strangers = append(strangers, n.Host)
			}
		}
	}
	for _, name := range names {
		if !agents[name] {
			without = append(without, name)
		}
	}
	var found []string
	if len(without) > 0 {
		found = append(found, "without an agent: "+some(without))
	}
	if len(strangers) > 0 {
		found = append(found, "agents of no node: "+some(strangers))
	}
	return unless(len(found) == 0, "%s", strings.Join(found, "; "))
}

// served summarizes the services, and names those without providers.
func served(count int, unserved []string) string {
	if len(unserved) == 0 {
		return fmt.Sprint(count)
	}
	return fmt.Sprintf("%d; with nobody behind: %s", count, some(unserved))
}

// some returns the first items of a list, and the number of the others.
func some(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}
