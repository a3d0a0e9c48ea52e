package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
)

// Denial is a refusal because of the client, not of its request. Its status is the same for all clients.
type Denial struct {
	Cause  error
	Status int
	Wait   time.Duration // until a retry may succeed; 0: never
}

func (d Denial) Error() string { return d.Cause.Error() }

func (d Denial) Unwrap() error { return d.Cause }

// Denied returns the denial in an error, if it has one.
func Denied(err error) (Denial, bool) {
	var d Denial
	if errors.As(err, &d) {
		return d, true
	}
	if errors.Is(err, access.ErrNobody) {
		return Denial{Cause: err, Status: http.StatusUnauthorized}, true
	}
	return d, false
}

// writeAsProxy answers with the texts of the original's authenticating proxy, which its clients know.
func (d Denial) writeAsProxy(w http.ResponseWriter) {
	text := d.Error()
	if d.Status == http.StatusForbidden {
		text = "Insufficient privileges"
	}
	writeProxyError(w, d.Status, text)
}

// WriteErrorAsProxy answers an error as the original's authenticating proxy did: with the status of its kind,
// whether the client asked for that or not.
func WriteErrorAsProxy(w http.ResponseWriter, r *http.Request, err error) {
	if _, is := Denied(err); is || WantsProblem(r) {
		WriteError(w, r, err)
		return
	}
	retryAfter(w, err)
	writeProxyError(w, StatusOf(err), err.Error())
}

// writeProxyError writes {"error": ...}.
func writeProxyError(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // an error means that the client has gone
}
