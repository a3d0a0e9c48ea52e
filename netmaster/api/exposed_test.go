package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// A secret of an object is accepted over plain HTTP where that is served. Its sender gets a warning that others
// could read it, and it appears in the report of what an enforced cluster would refuse.
func TestWhoSendsASecretInPlainTextIsWarned(t *testing.T) {
	const speaker = `{"hostname":"h9","routerip":"192.0.2.9/24","as":"65001","neighbor-as":"65002","neighbor":"192.0.2.1"`
	apply := func(object string) string {
		return `{"operations":[{"op":"apply","type":"Bgp","object":` + object + `}]}`
	}
	for _, mode := range []mastercfg.SecurityMode{mastercfg.SecurityOpen, mastercfg.SecurityPermissive} {
		for name, c := range map[string]struct {
			from, path, body string
			warned           bool
		}{
			"a password":               {"192.0.2.77:40000", "/api/v1/Bgps/h9/", speaker + `,"password":"canary"}`, true},
			"a password among others":  {"192.0.2.77:40000", rest.ApplyPath, apply(speaker + `,"password":"canary"}`), true},
			"what stands for one":      {"192.0.2.77:40000", "/api/v1/Bgps/h9/", speaker + `,"password":"***"}`, false},
			"no password":              {"192.0.2.77:40000", "/api/v1/Bgps/h9/", speaker + `}`, false},
			"a password, on loopback":  {"127.0.0.1:40000", "/api/v1/Bgps/h9/", speaker + `,"password":"canary"}`, false},
			"no password among others": {"192.0.2.77:40000", rest.ApplyPath, apply(speaker + `}`), false},
		} {
			b := secured(t, mode)
			b.want("proven:root", "POST", "Bgps/h9", speaker+`,"password":"before"}`, 200, "")
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			r.RemoteAddr = c.from
			w := httptest.NewRecorder()
			b.api.ServeHTTP(w, rest.Plain(r))
			warning := contivmodel.ParseWarning(w.Header().Get("Warning"))
			if w.Code != http.StatusOK || strings.Contains(warning, "plain HTTP") != c.warned || c.warned && !strings.Contains(warning, "password of Bgp h9 came over plain HTTP") || strings.Contains(warning, "canary") {
				t.Errorf("%s: %s: %d %s, with the warning %q", mode, name, w.Code, w.Body, warning)
			}
			if mode != mastercfg.SecurityPermissive || !c.warned {
				continue
			}
			if why := b.api.config.Foreseen.Report(time.Now()).Rows; len(why) != 1 || !strings.Contains(why[0].Reason, "password of Bgp h9") {
				t.Errorf("%s: the report says %+v", name, why)
			}
		}
	}
}
