package daemon

import (
	"net/http"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/utils/fault"
)

// admit refuses these requests before any route, also those that would be forwarded:
//
//   - changes that a page of another site lets a browser send. Browsers report where a request comes from
//     (Sec-Fetch-Site, or Origin, which is compared with Host); other clients send neither header and are
//     admitted.
//   - headers larger than maxHeader. Much larger ones are refused by the HTTP library itself, in plain text.
//
// Both are audited: a page may have made a user's browser send the request.
func admit(next http.Handler, refusals *auth.EarlyRefusals) http.Handler {
	origins := http.NewCrossOriginProtection()
	refuse := func(w http.ResponseWriter, r *http.Request, status int, why *fault.Error) {
		refusals.Add(r, "", status, why)
		rest.WriteStatus(w, r, status, why)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := origins.Check(r); err != nil {
			refuse(w, r, http.StatusForbidden, fault.New(fault.Denied, "%s %s from origin %q: changes are taken from this site only",
				r.Method, r.URL.Path, r.Header.Get("Origin")))
			return
		}
		if headerSize(r) > maxHeader {
			refuse(w, r, http.StatusRequestHeaderFieldsTooLarge, fault.New(fault.TooLarge, "request header too large: the limit is %d bytes", maxHeader))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// headerSize returns the size of the request line and the header in bytes.
func headerSize(r *http.Request) int {
	size := len(r.Method) + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(": \r\n") + len(value)
		}
	}
	return size
}
