package netctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// fakeMaster speaks the protocol of netmaster over objects in memory. It
// validates, knows when a tenant is missing or in use, and nothing more.
type fakeMaster struct {
	mu      sync.Mutex
	objects map[string]contivmodel.Object // by segment/key
	posted  string                        // body of the last post
	plain   bool                          // answer errors as old servers do
	denied  []string                      // segments that the caller may not see
	oper    any                           // run-time data of inspected objects; nil: two endpoints
}

func startFake(t *testing.T) (*fakeMaster, string) {
	t.Helper()
	f := &fakeMaster{objects: map[string]contivmodel.Object{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL
}

// add stores objects without checks.
func (f *fakeMaster) add(objects ...contivmodel.Object) {
	for _, o := range objects {
		o.SetKey(o.ModelKey())
		f.objects[contivmodel.KindOf(o).Segment+"/"+o.ModelKey()] = o
	}
}

func (f *fakeMaster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var result any
	var err error
	switch path := r.URL.Path; {
	case path == "/version":
		result = map[string]string{"Version": "1.2.3", "GitCommit": "abc", "BuildTime": "today"}
	case path == "/api/v1/counters/policys/blue:p1/" && !f.plain:
		result = contivmodel.PolicyCounters{Rules: map[string]contivmodel.RuleCounters{"blue:p1:1": {Packets: 7, Bytes: 700}}, Silent: []string{"h3: does not answer"}}
	case strings.HasPrefix(path, "/api/v1/counters/"), path == "/api/v1/apply", path == "/api/v1/status":
		http.NotFound(w, r)
		return
	case strings.HasPrefix(path, "/api/v1/inspect/"):
		result, err = f.inspect(strings.TrimPrefix(path, "/api/v1/inspect/"))
	case strings.HasPrefix(path, "/api/v1/"):
		result, err = f.object(r, strings.TrimSuffix(strings.TrimPrefix(path, "/api/v1/"), "/"))
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		f.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(result)
}

func (f *fakeMaster) object(r *http.Request, path string) (any, error) {
	segment, key, single := strings.Cut(path, "/")
	kind, ok := contivmodel.KindBySegment(segment)
	if !ok {
		return nil, fault.New(fault.NotFound, "no such collection")
	}
	if slices.Contains(f.denied, segment) {
		return nil, fault.New(fault.Denied, "user/ann may not read %s", segment)
	}
	old, exists := f.objects[path]
	switch {
	case r.Method == http.MethodPost:
		return f.post(kind, key, r)
	case !single:
		all := []contivmodel.Object{}
		for _, o := range f.objects {
			if o.ModelType() == kind.Type {
				all = append(all, o)
			}
		}
		return all, nil
	case !exists:
		return nil, fault.New(fault.NotFound, "%s not found", kind.Type)
	case r.Method == http.MethodDelete:
		if kind.Type == "tenant" && len(f.objects) > 1 {
			return nil, fault.New(fault.InUse, "cannot delete %s has 1 networks", key).WithDetails("network " + key + ":web")
		}
		delete(f.objects, path)
		return key, nil
	}
	return old, nil
}

func (f *fakeMaster) post(kind contivmodel.Kind, key string, r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.posted = string(body)
	o, err := kind.Decode(body)
	if err != nil {
		return nil, err
	}
	o.SetKey(key)
	if err := contivmodel.Validate(o); err != nil {
		return nil, err
	}
	if tenant, _, scoped := strings.Cut(key, ":"); scoped && f.objects["tenants/"+tenant] == nil {
		return nil, fault.New(fault.MissingReference, "Tenant not found")
	}
	f.add(o)
	return o, nil
}

func (f *fakeMaster) inspect(path string) (any, error) {
	path = strings.TrimSuffix(path, "/")
	switch {
	case path == "endpoints/busy":
		return contivmodel.EndpointInspect{Oper: contivmodel.EndpointOper{EndpointID: "busy",
			Counters: &contivmodel.EndpointCounters{RxBytes: 12345678901, RxPackets: 4000000, TxBytes: 1500000, TxPackets: 30}}}, nil
	case path == "networkPolicies/shop:db":
		return contivmodel.NetworkPolicyInspect{Oper: contivmodel.NetworkPolicyOper{Key: "shop:db", Realised: "on 1 of 2 nodes", Nodes: []string{"n1", "n2"},
			Missing: []contivmodel.NetworkPolicyMissing{{Node: "n2", Why: "its switch refuses rules of the policy: no\x1b[2J room"}}}}, nil
	case path == "endpoints/e1":
		return contivmodel.EndpointInspect{Oper: contivmodel.EndpointOper{Key: "e1", EndpointID: "e1", Labels: "map[a:<b>]"}}, nil
	}
	o, ok := f.objects[path]
	if !ok {
		return nil, fault.New(fault.NotFound, "%s not found", strings.TrimSuffix(strings.Split(path, "/")[0], "s"))
	}
	if f.oper != nil {
		return map[string]any{"Config": o, "Oper": f.oper}, nil
	}
	return map[string]any{"Config": o, "Oper": map[string]int{"numEndpoints": 2}}, nil
}

func (f *fakeMaster) refuse(w http.ResponseWriter, err error) {
	e := fault.As(err)
	if f.plain {
		http.Error(w, e.Message, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Kind.Status())
	json.NewEncoder(w).Encode(fault.ProblemOf(e, e.Kind.Status()))
}

// outcome is what a user sees of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// run executes a command line against a server; words are split at blanks,
// quoted ones are not.
func run(t *testing.T, url, line string) outcome {
	t.Helper()
	return runWords(t, url, words(line))
}

func runWords(t *testing.T, url string, words []string) outcome {
	t.Helper()
	return runReading(t, url, words, "")
}

// runReading runs a command with something on standard input.
func runReading(t *testing.T, url string, words []string, input string) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	code := Run(t.Context(), append([]string{"netctl", "--netmaster", url}, words...), strings.NewReader(input), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func (o outcome) String() string { return fmt.Sprintf("exit %d\n%s%s", o.code, o.stdout, o.stderr) }
