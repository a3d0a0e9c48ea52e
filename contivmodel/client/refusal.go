package client

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// kindOfStatus is the meaning of a status without a problem document.
var kindOfStatus = map[int]fault.Kind{
	http.StatusBadRequest:            fault.Malformed,
	http.StatusUnauthorized:          fault.Denied,
	http.StatusForbidden:             fault.Denied,
	http.StatusNotFound:              fault.NotFound,
	http.StatusConflict:              fault.Conflict,
	http.StatusGone:                  fault.Conflict,
	http.StatusPreconditionFailed:    fault.Conflict,
	http.StatusRequestEntityTooLarge: fault.TooLarge,
	http.StatusUnprocessableEntity:   fault.MissingReference,
	http.StatusNotImplemented:        fault.Unsupported,
	http.StatusTooManyRequests:       fault.Denied,
	http.StatusBadGateway:            fault.Unavailable,
	http.StatusServiceUnavailable:    fault.Unavailable,
	http.StatusGatewayTimeout:        fault.Unavailable,
}

// outdated is the text of a refusal because the object has changed since the revision in the request.
type outdated string

func (o outdated) Error() string { return string(o) }

// early is the text of a refusal because of the client's rate limit; the same request may be sent again.
type early struct {
	text string
	wait time.Duration // before the next attempt
}

func (e early) Error() string { return e.text }

// longestWait is the longest delay by a server's rate limit that the client accepts.
const longestWait = 5 * time.Second

// earlyBy returns how long to wait if err is a refusal by a rate limit; 0: it is not.
func earlyBy(err error) time.Duration {
	var e early
	errors.As(err, &e)
	return e.wait
}

// accessDenied is the message for refusals whose text is not for users.
const accessDenied = "access denied"

// refusal returns the error of a response without success.
func refusal(resp *http.Response, body []byte) error {
	return refused(resp, body).WithRequest(resp.Header.Get(contivmodel.RequestIDHeader))
}

func refused(resp *http.Response, body []byte) *fault.Error {
	err := explained(resp, body)
	if resp.StatusCode == http.StatusPreconditionFailed {
		return fault.New(fault.Conflict, "%w", outdated(err.Error()))
	}
	if resp.StatusCode == http.StatusTooManyRequests && fault.Is(err, fault.Unavailable) {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // without one: a second
		wait := time.Duration(max(seconds, 1)) * time.Second
		return fault.New(fault.Unavailable, "%w", early{err.Error(), min(wait, longestWait)})
	}
	return err
}

func explained(resp *http.Response, body []byte) *fault.Error {
	if p, ok := fault.ReadProblem(resp.Header.Get("Content-Type"), body); ok {
		err := p.Fault()
		if err.Kind == fault.Internal && p.Reason != fault.Internal.String() {
			err.Kind = kindOfStatus[resp.StatusCode] // a reason that this client does not know
		}
		return err
	}
	return plainRefusal(resp, body)
}

// plainRefusal handles servers that answer every error with status 500 and a text. Only its first line is for
// users; old servers append a stack trace.
func plainRefusal(resp *http.Response, body []byte) *fault.Error {
	kind := kindOfStatus[resp.StatusCode]
	text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	switch {
	case resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized:
		text = accessDenied
	case resp.StatusCode == http.StatusNotFound:
		text = "page not found: " + resp.Request.URL.Path
	case resp.StatusCode == http.StatusInternalServerError && saysNotFound(text):
		kind = fault.NotFound
	case text == "" || resp.StatusCode != http.StatusInternalServerError:
		text = strings.TrimSuffix(resp.Status+": "+text, ": ")
	}
	return fault.New(kind, "%s", text)
}

// saysNotFound recognises the two texts with which a server reports that the object of the URL does not exist.
// Other texts with the same end are about objects that the request refers to.
func saysNotFound(text string) bool {
	typ, found := strings.CutSuffix(text, " not found")
	if !found {
		return false
	}
	_, known := contivmodel.KindByType(typ)
	return known || typ == "endpoint"
}
