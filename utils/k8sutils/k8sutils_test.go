package k8sutils

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/contiv/netplugin/utils/fault"
)

func TestTheFileIsReadWithItsDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contiv.json")
	if _, err := Load(path); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"K8S_API_SERVER": "https://10.0.0.1:6443", "K8S_CA": "/ca", "K8S_TOKEN": "x", "OTHER": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	want := Config{APIServer: "https://10.0.0.1:6443", CAFile: "/ca", Token: "x", ServiceSubnet: "10.254.0.0/16", TokenFile: serviceAccountToken}
	if err != nil || c != want {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
}

func TestEveryViolationIsReported(t *testing.T) {
	for text, fields := range map[string][]string{
		`{`:                                   {"unexpected end"},
		`{}`:                                  {"K8S_API_SERVER"},
		`{"K8S_API_SERVER": "10.0.0.1:6443"}`: {"K8S_API_SERVER"},
		`{"K8S_API_SERVER": "https://a"}`:     {"K8S_CA"},
		`{"K8S_API_SERVER": "ftp://a", "K8S_CERT": "c", "SVC_SUBNET": "x"}`: {"K8S_API_SERVER", "K8S_KEY", "SVC_SUBNET"},
	} {
		_, err := parse([]byte(text))
		for _, field := range fields {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v, want %s in it", text, err, field)
			}
		}
	}
}

func TestAMissingCAIsAnError(t *testing.T) {
	_, err := Config{APIServer: "https://10.0.0.1", CAFile: "/nowhere", Token: "x"}.Clients()
	if err == nil || !strings.Contains(err.Error(), "K8S_CA") {
		t.Errorf("client: %v", err)
	}
}

func TestTheTokenComesFromTheFileUnlessThereIsOne(t *testing.T) {
	seen := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"kind": "Pod", "apiVersion": "v1"}`))
	}))
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Config{
		"Bearer from-file":   {APIServer: api.URL, TokenFile: file},
		"Bearer from-config": {APIServer: api.URL, TokenFile: file, Token: "from-config"},
	} {
		clients, err := c.Clients()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Core.CoreV1().Pods("shop").Get(t.Context(), "web-0", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != want {
			t.Errorf("authorization %q, want %q", got, want)
		}
	}
}

// The token of a pod is projected into a file, which kubelet rewrites before the token expires.
func TestATokenThatIsWrittenAnewIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		next := file + ".next"
		if err := os.WriteFile(next, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) { // a client reads it once a minute
		write("first\n")
		c, err := Config{APIServer: "https://192.0.2.1:6443", TokenFile: file}.rest()
		if err != nil {
			t.Fatal(err)
		}
		var sent string
		client, err := rest.HTTPWrappersForConfig(c, transport(func(r *http.Request) { sent = r.Header.Get("Authorization") }))
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{"first", "second", "third"} {
			write(token + "\n")
			time.Sleep(time.Minute)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Host, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.RoundTrip(r); err != nil || sent != "Bearer "+token {
				t.Errorf("sent %q, want the token %s; %v", sent, token, err)
			}
		}
	})
}

// transport answers with an empty body, after it was called with the request.
type transport func(*http.Request)

func (see transport) RoundTrip(r *http.Request) (*http.Response, error) {
	see(r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"K8S_API_SERVER": "https://[::1]:6443", "K8S_CA": "/ca", "SVC_SUBNET": "10.0.0.0/8"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := parse(data); err == nil && (c.APIServer == "" || c.ServiceSubnet == "") {
			t.Errorf("accepted %+v", c)
		}
	})
}
