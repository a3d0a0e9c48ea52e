package rest

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// AskingExactly returns the request of a client that wants the status
// of the cause: clients of the original get 500 for most errors.
func AskingExactly(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Accept", fault.ProblemType)
	return r
}

// statusError is an error with another status than that of its kind, for clients that ask for proper ones.
type statusError struct {
	error
	code int
}

func (e statusError) Unwrap() error { return e.error }

// WithStatus returns the error with this status.
func WithStatus(code int, err error) error { return statusError{err, code} }

// StatusOf returns the status of an error for clients that ask for proper ones. Others get 500 and the text,
// whatever the kind: the clients of the original controller show the text of a 500 only.
func StatusOf(err error) int {
	var special statusError
	if errors.As(err, &special) {
		return special.code
	}
	if d, ok := Denied(err); ok {
		return d.Status
	}
	return fault.KindOf(err).Status()
}

// WantsProblem reports whether the client asked for proper status codes, and so for problem documents.
func WantsProblem(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), fault.ProblemType)
}

// WriteError answers a request with an error.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	message, _, _ := strings.Cut(err.Error(), "\n")
	retryAfter(w, err)
	if !WantsProblem(r) {
		if d, ok := Denied(err); ok {
			d.writeAsProxy(w)
			return
		}
		http.Error(w, message, http.StatusInternalServerError)
		return
	}
	p := fault.ProblemOf(err, StatusOf(err))
	p.Request = w.Header().Get(contivmodel.RequestIDHeader)
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, message, p.Code)
		return
	}
	w.Header().Set("Content-Type", fault.ProblemType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Code)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has gone
}

// retryAfter sets the Retry-After header if a retry may succeed.
func retryAfter(w http.ResponseWriter, err error) {
	switch d, _ := Denied(err); {
	case d.Wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Wait.Seconds()))))
	case fault.Is(err, fault.NotLeader) || fault.Is(err, fault.Unavailable):
		w.Header().Set("Retry-After", "1")
	}
}

// WriteStatus answers an error whose status is the same for all clients:
// one about the request itself or its transport, not about objects.
func WriteStatus(w http.ResponseWriter, r *http.Request, code int, err *fault.Error) {
	if WantsProblem(r) {
		WriteError(w, r, WithStatus(code, err))
		return
	}
	http.Error(w, err.Error(), code)
}
