package k8sutils

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServer answers everything with a pod, and counts the requests whose bodies were whole.
func apiServer(t *testing.T) (url string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && (r.Method == http.MethodGet || strings.Contains(string(body), "p1")) {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "Pod", "apiVersion": "v1"}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// refusing is the URL of an address that refuses connections.
func refusing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// hangingUp is the URL of a server that ends each connection at once.
func hangingUp(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// Whichever API server of several is away, requests are answered by another one, those to change something, too.
func TestRequestsGoToAnAPIServerThatIsThere(t *testing.T) {
	first, askedFirst := apiServer(t)
	second, askedSecond := apiServer(t)
	clients, err := Config{APIServer: refusing(t) + ", " + first + "," + second, Token: "x"}.Clients()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := clients.Core.CoreV1().Pods("ns").Get(t.Context(), "p1", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := clients.Core.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p1"}}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	if askedFirst.Load() != 6 || askedSecond.Load() != 0 {
		t.Errorf("asked %d and %d times, want the one that is there to be kept", askedFirst.Load(), askedSecond.Load())
	}
}

// A request that may have arrived is not sent twice, but the next one goes elsewhere.
func TestARequestThatMayHaveArrivedIsNotSentTwice(t *testing.T) {
	there, asked := apiServer(t)
	clients, err := Config{APIServer: hangingUp(t) + "," + there, Token: "x"}.Clients()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p1"}}
	if _, err := clients.Core.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err == nil || asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	if _, err := clients.Core.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil || asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}

// Clients turn from an API server without a store to one that can serve.
func TestAnAPIServerThatCannotServeIsLeft(t *testing.T) {
	there, asked := apiServer(t)
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		asked.Store(0)
		ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer ill.Close()
		clients, err := Config{APIServer: ill.URL + "," + there, Token: "x"}.Clients()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Core.CoreV1().Pods("ns").Get(t.Context(), "p1", metav1.GetOptions{}); err == nil {
			t.Errorf("%d is no error", status)
		}
		for range 3 {
			if _, err := clients.Core.CoreV1().Pods("ns").Get(t.Context(), "p1", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
		if asked.Load() != 3 {
			t.Errorf("after %d the other one was asked %d times, want 3", status, asked.Load())
		}
	}
}

func TestSeveralAPIServersHaveOneSchemeAndPath(t *testing.T) {
	for text, cause := range map[string]string{
		"http://a:1,": `K8S_API_SERVER "": want`, "http://a:1,a:2": `K8S_API_SERVER "a:2": want`, "http://a:1,https://a:2": `"https://a:2": want the scheme`,
		"http://a:1/x,http://a:2/y": `"http://a:2/y": want`,
	} {
		if _, err := parse([]byte(`{"K8S_API_SERVER": "` + text + `"}`)); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%s: %v, want %s in it", text, err, cause)
		}
	}
}
