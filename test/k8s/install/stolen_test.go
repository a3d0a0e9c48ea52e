package install

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/k8s/cluster"
)

// asThief sends a request to a netmaster on another machine with a node's stolen key.
func (i installation) asThief(method, path, body string) (code int, answer string) {
	i.Helper()
	thief := i.Nodes[1]
	const dir = "/var/lib/contiv/node/"
	out, err := thief.Run(i.Context(), "curl", "--silent", "--show-error", "--max-time", "20", "--insecure", "--cert", dir+"node.crt", "--key", dir+"node.key",
		"--request", method, "--data", body, "--write-out", "\n%{http_code}", "https://"+i.Nodes[0].At(9999)+path)
	i.must(err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	_, err = fmt.Sscan(lines[len(lines)-1], &code)
	i.must(err)
	return code, strings.Join(lines[:len(lines)-1], "\n")
}

// stolenKey shows what the key of a node with one pod of tenant blue can get: endpoints of that pod, a few, and
// only of the group that the leader assigns.
func (i installation) stolenKey() {
	const space, network = "stolen", mastercfg.DefaultNetwork
	for number, tenant := range []string{"blue", "red"} {
		i.netctl("tenant", "create", tenant)
		i.netctl("network", "create", "-t", tenant, "-s", fmt.Sprintf("10.7%d.0.0/24", number), "-g", fmt.Sprintf("10.7%d.0.254", number), network)
		for _, group := range []string{"front", "db"} {
			i.netctl("group", "create", "-t", tenant, network, group)
		}
	}
	i.netctl("tenant", "update", "--namespaces", space, "blue")
	i.kubectl("create", "namespace", space)
	i.kubectl("annotate", "namespace", space, mastercfg.TenantLabel+"=blue", mastercfg.GroupLabel+"=front")
	uid := map[string]string{}
	for number, name := range map[int]string{1: "mine", 2: "others"} {
		overrides := fmt.Sprintf(`{"spec":{"nodeName":%q,"terminationGracePeriodSeconds":0}}`, i.Nodes[number].Name)
		i.soon(func(ctx context.Context) error { // a new namespace has no service account yet
			_, err := i.Kubectl(ctx, "--namespace", space, "run", name, "--image", cluster.PodImage, "--restart=Never", "--overrides", overrides, "--", "pause")
			return err
		})
		i.kubectl("--namespace", space, "wait", "pod", name, "--for=condition=Ready", "--timeout", shortly.String())
		uid[name] = i.kubectl("--namespace", space, "get", "pod", name, "--output", "jsonpath={.metadata.uid}")
	}
	ask := func(tenant, pod, container, group, more string) (int, string) {
		i.Helper()
		return i.asThief(http.MethodPost, mastercfg.CreateEndpointPath, fmt.Sprintf(`{"TenantName":%q,"NetworkName":%q,"PodUID":%q%s,"ConfigEP":{"Container":%q,"Host":%q,"ServiceName":%q}}`,
			tenant, network, uid[pod], more, container, i.Nodes[1].Name, group))
	}
	for name, c := range map[string]struct{ tenant, pod, more string }{
		"the pod of another node":    {tenant: "blue", pod: "others"},
		"no pod":                     {tenant: "blue"},
		"another tenant":             {tenant: "red", pod: "mine"},
		"labels of a service's pods": {tenant: "blue", pod: "mine", more: `,"Labels":{"app":"web"}`},
	} {
		if code, answer := ask(c.tenant, c.pod, "thief", "db", c.more); code != http.StatusForbidden {
			i.Errorf("an endpoint of %s: %d %s", name, code, answer)
		}
	}
	given := 0
	for n := range 12 {
		code, answer := ask("blue", "mine", fmt.Sprint("thief", n), "db", "")
		if code == http.StatusForbidden {
			continue
		}
		given++
		if code != http.StatusOK || !strings.Contains(answer, `"front:blue"`) {
			i.Errorf("an endpoint of the pod: %d %s", code, answer)
		}
	}
	if given != 7 { // and the pod's own
		i.Errorf("the thief has %d endpoints of the pod", given)
	}
	// In tenant default, where all pods of a plain cluster are, it gets no endpoint for an unknown pod either.
	if code, answer := ask(mastercfg.DefaultTenant, "", "thief", "", ""); code != http.StatusForbidden {
		i.Errorf("an endpoint of no pod in tenant default: %d %s", code, answer)
	}
	i.kubectl("delete", "namespace", space, "--timeout", shortly.String())
}
