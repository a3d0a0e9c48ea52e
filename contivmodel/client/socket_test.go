package client

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

func TestASocketIsAskedLikeAServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "netmaster.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") != "" {
			t.Error("a token is sent")
		}
		io.WriteString(w, `[{"tenantName":"blue"}]`)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	c := connectTo(t, Config{URLs: []string{"unix://" + path}, Token: "secret"})
	if all, err := List[contivmodel.Tenant](t.Context(), c); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	gone := connectTo(t, Config{URLs: []string{"unix://" + path + ".gone"}})
	if _, err := List[contivmodel.Tenant](t.Context(), gone); !fault.Is(err, fault.Unavailable) || !strings.HasPrefix(err.Error(), "cannot reach netmaster at unix://"+path+".gone: dial unix ") {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := New(Config{URLs: []string{"unix://" + path, "http://192.0.2.1:9999"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("beside a server: %v", err)
	}
}
