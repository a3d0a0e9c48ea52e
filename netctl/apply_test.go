package netctl

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
)

// startApplier answers apply requests: everything is created or deleted,
// except that the tenant red is refused. It keeps the last request.
func startApplier(t *testing.T) (url string, asked *string) {
	t.Helper()
	asked = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = r.URL.String() + " " + string(body)
		var request struct {
			Operations []struct{ Op, Type, Key string }
		}
		json.Unmarshal(body, &request)
		results := []map[string]string{}
		for _, o := range request.Operations {
			if o.Key == "red" {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusConflict)
				io.WriteString(w, `{"code":409,"reason":"in-use","message":"tenant red: in use","details":["tenant red: in use","network red:x: no"]}`)
				return
			}
			results = append(results, map[string]string{"op": o.Op, "type": o.Type, "key": o.Key,
				"result": map[string]string{"apply": "created", "delete": "deleted"}[o.Op]})
		}
		json.NewEncoder(w).Encode(map[string]any{"dryRun": r.URL.Query().Get("dryRun") == "true", "revision": 9, "results": results})
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestApplySendsAllObjectsAtOnce(t *testing.T) {
	url, asked := startApplier(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kind: tenant\nmetadata: {name: blue}\n---\nkind: policies\nmetadata: {name: p}\n")
	const apply = `{"operations":[{"op":"apply","type":"tenant","key":"blue","object":{"key":"blue","tenantName":"blue","link-sets":{}}},` +
		`{"op":"apply","type":"policy","key":"green:p","object":{"key":"green:p","policyName":"p","tenantName":"green","link-sets":{},"links":{"Tenant":{}}}}]}`
	for _, c := range []struct{ line, stdout, asked string }{
		{"apply -t green -f " + file, "tenant/blue created\npolicy/green:p created\n", "/api/v1/apply " + apply},
		{"apply -t green --dry-run -f " + dir, "tenant/blue created (dry run)\npolicy/green:p created (dry run)\n", "/api/v1/apply?dryRun=true " + apply},
		{"apply -t green -q -f " + file, "", "/api/v1/apply " + apply},
		{"apply -t green -o name -f " + file, "tenant/blue\npolicy/green:p\n", "/api/v1/apply " + apply},
		{"delete -f " + file + " --ignore-not-found", "tenant/blue deleted\npolicy/default:p deleted\n",
			`/api/v1/apply {"operations":[{"op":"delete","type":"tenant","key":"blue","ignoreNotFound":true},{"op":"delete","type":"policy","key":"default:p","ignoreNotFound":true}]}`},
		{"delete rule p:1 -t blue", "rule/blue:p:1 deleted\n", `/api/v1/apply {"operations":[{"op":"delete","type":"rule","key":"blue:p:1"}]}`},
		{"delete network/blue:web -q", "", `/api/v1/apply {"operations":[{"op":"delete","type":"network","key":"blue:web"}]}`},
	} {
		wantOutcome(t, c.line, run(t, url, c.line), outcome{stdout: c.stdout})
		if diff := cmp.Diff(c.asked, *asked); diff != "" {
			t.Errorf("netctl %s asks:\n%s", c.line, diff)
		}
	}
	write("kind: tenant\nmetadata: {name: red}\n")
	wantOutcome(t, "a refusal", run(t, url, "apply -f "+file), outcome{6, "", "error: tenant red: in use\n  network red:x: no\n"})
	write("kind: tenant\nmetadata: {name: red}\n---\nkind: tenant\nmetadata: {name: red}\n")
	wantOutcome(t, "twice", run(t, url, "apply -f "+file), outcome{1, "", "error: " + file + ", document 2: tenant/red is in " + file + ", document 1 already\n"})
	write("# nothing\n")
	wantOutcome(t, "nothing", run(t, url, "apply -f "+file), outcome{1, "", "error: no documents in [" + file + "]\n"})
}

func TestAFileOfDocumentsMayHaveACommaInItsName(t *testing.T) {
	url, _ := startApplier(t)
	dir := t.TempDir()
	var typed []string
	for _, name := range []string{"site,a.yaml", "b.yaml"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("kind: tenant\nmetadata: {name: "+name[:1]+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		typed = append(typed, "-f", file)
	}
	wantOutcome(t, "apply", runWords(t, url, append([]string{"apply"}, typed...)), outcome{stdout: "tenant/s created\ntenant/b created\n"})
}

func TestDocumentsMayComeFromStandardInput(t *testing.T) {
	url, _ := startApplier(t)
	var stdout, stderr strings.Builder
	code := Run(t.Context(), []string{"netctl", "--netmaster", url, "apply", "-f", "-"}, strings.NewReader(`{"tenantName":"blue"}`), &stdout, &stderr)
	wantOutcome(t, "apply -f -", outcome{code, stdout.String(), stderr.String()}, outcome{stdout: "tenant/blue created\n"})
}

func TestEveryKindHasItsPlaceInTheOrder(t *testing.T) {
	place := map[string]bool{"volume": true, "volumeProfile": true} // have no implementation
	for _, typ := range contivmodel.DependencyOrder() {
		place[typ] = true
	}
	for _, kind := range contivmodel.Kinds() {
		if !place[kind.Type] {
			t.Errorf("%s is not in the order", kind.Type)
		}
	}
	if len(place) != len(contivmodel.Kinds()) {
		t.Errorf("%d places for %d kinds", len(place), len(contivmodel.Kinds()))
	}
}
