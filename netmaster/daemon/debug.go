package daemon

import (
	"net/http"
	"net/http/pprof"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/utils/fault"
)

// debugPath is the path of profiles and dumps of the process.
const debugPath = "/debug/pprof/"

// debugging serves profiles of this process to root of its machine, on the socket. No other client gets them,
// whatever its rights: they show the memory.
func debugging() http.Handler {
	pages := http.NewServeMux()
	for path, page := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		pages.HandleFunc(debugPath+path, page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !byRoot(r) {
			rest.WriteStatus(w, r, http.StatusForbidden, fault.New(fault.Denied, "%s is for root of this machine, on the socket", r.URL.Path))
			return
		}
		pages.ServeHTTP(w, r)
	})
}
