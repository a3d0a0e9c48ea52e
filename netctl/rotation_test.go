package netctl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Each call is a step; a step that has to wait is an error with the reason, and absent parts are named.
func TestAuthoritiesAreReplacedStepByStep(t *testing.T) {
	answers := []struct {
		code int
		text string
	}{
		{200, `{"step":"add","authorities":"a","absent":["node/h9"]}`},
		{409, `{"reason":"conflict","message":"authorities: the next step waits for node/h1"}`},
		{200, `{"step":"drop","authorities":"b","done":true,"absent":[]}`},
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		if answers[0].code != 200 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(answers[0].code)
		_, _ = w.Write([]byte(answers[0].text))
		answers = answers[1:]
	}))
	defer server.Close()
	for i, want := range []struct {
		args, out string
		fails     bool
	}{
		{"security rotate-ca --dry-run", "Step add would be done: nothing is changed.\nAway, and not waited for: node/h9.\n", false},
		{"security rotate-ca", "", true},
		{"security rotate-ca", "Step drop is done: the authorities are replaced.\n", false},
	} {
		got := run(t, server.URL, want.args)
		if got.stdout != want.out || (got.code != 0) != want.fails {
			t.Errorf("%d: %+v", i, got)
		}
	}
	const path = "POST /api/v1/authorities/rotate "
	if len(asked) != 3 || asked[0] != path+`{"dryRun":true}` || asked[1] != path+`{"dryRun":false}` {
		t.Errorf("asked: %q", asked)
	}
}

func TestTheKeyOfSecretsIsReplacedStepByStep(t *testing.T) {
	answers := []string{`{"step":"add"}`, `{"step":"add"}`, `{"step":"turn","done":true,"resealed":2,"left":1}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/security/rotate-keys" || r.Method != http.MethodPost {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answers[0]))
		answers = answers[1:]
	}))
	defer server.Close()
	for _, want := range []struct{ args, out string }{
		{"security rotate-keys --dry-run", "Step add would be done: nothing is changed.\n"},
		{"security rotate-keys", "Step add is done: run this again for the next one, as soon as all netmasters have the key.\n"},
		{"security rotate-keys", "Step turn is done: 2 secrets are sealed anew.\n1 texts look sealed, and open with no key of the keyring: they stay as they are.\n"},
	} {
		if got := run(t, server.URL, want.args); got.stdout != want.out || got.code != 0 {
			t.Errorf("%s: %+v", want.args, got)
		}
	}
}
