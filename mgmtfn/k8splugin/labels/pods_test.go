package labels

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/fault"
)

// apiServer answers for the pods of namespace shop and counts what it is asked.
type apiServer struct {
	*httptest.Server
	pods  atomic.Pointer[map[string]string] // name -> metadata
	asked atomic.Int32
}

const token = "secret"

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	api := &apiServer{}
	api.Server = httptest.NewServer(http.HandlerFunc(api.serve))
	t.Cleanup(api.Close)
	return api
}

func (a *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	w.Header().Set("Content-Type", "application/json")
	status := func(code int, reason string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason})
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		status(http.StatusUnauthorized, "Unauthorized")
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/")
	if !ok {
		status(http.StatusForbidden, "Forbidden")
		return
	}
	metadata, ok := (*a.pods.Load())[name]
	if !ok {
		status(http.StatusNotFound, "NotFound")
		return
	}
	w.Write([]byte(`{"kind": "Pod", "apiVersion": "v1", "metadata": ` + metadata + `}`))
}

// source connects to the API server the way the agent does: by contiv.json.
func source(t *testing.T, api *apiServer) Source {
	t.Helper()
	return fromFile(t, `{"K8S_API_SERVER": "`+api.URL+`", "K8S_TOKEN": "`+token+`"}`)
}

func fromFile(t *testing.T, content string) Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "contiv.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := FromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithoutAnAPIServerTheCallSaysWhereAContainerBelongs(t *testing.T) {
	without, err := FromFile(filepath.Join(t.TempDir(), "contiv.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Source{without, fromFile(t, `{"SVC_SUBNET": "10.0.0.0/16"}`)} {
		if _, ok := s.(Call); !ok {
			t.Errorf("source %T", s)
		}
	}
}

func TestAPodsLabelsAreReadEachTime(t *testing.T) {
	api := newAPIServer(t)
	pods := source(t, api)
	conf := parse(t, `, "group": "all"`)
	args := netconf.ParseArgs("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u1;IO_CONTIV_TENANT=forged")

	api.pods.Store(&map[string]string{"web-0": `{"name": "web-0", "uid": "u1", "labels": {"io.contiv.tenant": "blue", "io.contiv.network": "web", "app": "x"}}`})
	if got, err := pods.Identify(t.Context(), args, conf); err != nil || got != (Identity{"blue", "web", "all"}) {
		t.Errorf("first pod: %v, %v", got, err)
	}
	// The same name again, as a stateful set does: another pod on another network.
	api.pods.Store(&map[string]string{"web-0": `{"name": "web-0", "uid": "u2", "labels": {"io.contiv.net-group": "front"}}`})
	args[netconf.PodUID] = "u2"
	if got, err := pods.Identify(t.Context(), args, conf); err != nil || got != (Identity{"default", "default-net", "front"}) {
		t.Errorf("second pod: %v, %v", got, err)
	}
	if api.asked.Load() != 2 {
		t.Errorf("the API server was asked %d times, want 2", api.asked.Load())
	}
	args[netconf.PodUID] = "u1"
	if got, err := pods.Identify(t.Context(), args, conf); !fault.Is(err, fault.NotFound) {
		t.Errorf("a pod that has been replaced: %v, %v", got, err)
	}
}

func TestAStaticPodIsKnownByTheUIDOfItsManifest(t *testing.T) {
	api := newAPIServer(t)
	api.pods.Store(&map[string]string{"etcd": `{"name": "etcd", "uid": "mirror", "annotations": {"kubernetes.io/config.mirror": "manifest"}}`})
	args := netconf.ParseArgs("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=etcd;K8S_POD_UID=manifest")
	if _, err := source(t, api).Identify(t.Context(), args, parse(t, "")); err != nil {
		t.Error(err)
	}
}

func TestAPodThatCannotBeReadIsAnError(t *testing.T) {
	api := newAPIServer(t)
	api.pods.Store(&map[string]string{})
	pods := source(t, api)
	for args, kind := range map[string]fault.Kind{
		"K8S_POD_NAMESPACE=shop;K8S_POD_NAME=gone":    fault.NotFound,
		"K8S_POD_NAMESPACE=secret;K8S_POD_NAME=web-0": fault.Denied,
		"K8S_POD_NAME=web-0":                          fault.Invalid,
	} {
		if got, err := pods.Identify(t.Context(), netconf.ParseArgs(args), parse(t, "")); !fault.Is(err, kind) {
			t.Errorf("%s: %v, %v; want %v", args, got, err, kind)
		}
	}
	api.Close()
	_, err := pods.Identify(t.Context(), netconf.ParseArgs("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0"), parse(t, ""))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "shop/web-0") {
		t.Errorf("without an API server: %v", err)
	}
}
