package install

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/netplugin/test/testkit"
)

// request is an entry of the API server's audit log.
type request struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ APIGroup, Resource, Subresource string }

	ResponseStatus struct{ Code int }
}

// right returns the right that a request needs: a verb on objects of a kind.
func (r request) right() string {
	return right(r.Verb, r.ObjectRef.APIGroup, strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/"))
}

func right(verb, group, resource string) string {
	return fmt.Sprintf("%s %s.%s", verb, resource, group)
}

const nobodysPolicy = `
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: nobodys}
spec:
  tier: Baseline
  priority: 1000
  subject: {namespaces: {matchLabels: {whose: nobodys}}}
  ingress: [{action: Pass, from: [{namespaces: {}}]}]
`

// rights compares the roles' rights with the requests: agents send none.
func (i installation) rights() {
	// A pod that is refused, so that there is an event.
	i.kubectl("run", "refused", "--image=nowhere", "--annotations=io.contiv.tenant=nobody", "--restart=Never")
	// A policy of the cluster, so that there is a status.
	policy := filepath.Join(i.TempDir(), "policy.yaml")
	i.must(os.WriteFile(policy, []byte(nobodysPolicy), 0o644))
	i.kubectl("apply", "--filename", policy)
	granted := i.granted()
	ctx, cancel := context.WithTimeout(i.Context(), shortly)
	defer cancel()
	i.must(testkit.Poll(ctx, func() error { // the log is written some time later
		used := map[string]bool{}
		for _, r := range i.requests() {
			if strings.HasSuffix(r.User.Username, ":contiv-netplugin") {
				i.Fatalf("netplugin asks the API server: %s", r.right())
			}
			if r.ResponseStatus.Code == http.StatusForbidden {
				i.Fatalf("netmaster may not %s", r.right())
			}
			used[r.right()] = true
		}
		idle := slices.DeleteFunc(slices.Clone(granted), func(right string) bool { return used[right] })
		if len(idle) > 0 {
			return fmt.Errorf("granted, and not used: %q", idle)
		}
		return nil
	}))
}

// granted lists what the roles of netmaster allow.
func (i installation) granted() (rights []string) {
	var roles struct {
		Items []struct {
			Rules []struct{ APIGroups, Resources, Verbs []string }
		}
	}
	out := i.kubectl("--namespace", "kube-system", "get", "clusterrole/contiv-netmaster", "role/contiv-netmaster", "-o", "json")
	i.must(json.Unmarshal([]byte(out), &roles))
	for _, role := range roles.Items {
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						rights = append(rights, right(verb, group, resource))
					}
				}
			}
		}
	}
	if len(rights) == 0 {
		i.Fatal("netmaster has no rights")
	}
	return rights
}

// requests returns the entries in the audit log up to now.
func (i installation) requests() (all []request) {
	file, err := os.Open(i.AuditLog())
	i.must(err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) == nil { // the last may be half written
			all = append(all, r)
		}
	}
	i.must(lines.Err())
	return all
}
