package fault

import (
	"cmp"
	"net/http"
)

// statuses are the HTTP status codes by kind; missing kinds have that of an internal error.
var statuses = map[Kind]int{
	Malformed:        http.StatusBadRequest,
	Invalid:          http.StatusBadRequest,
	NotFound:         http.StatusNotFound,
	MissingReference: http.StatusUnprocessableEntity,
	Immutable:        http.StatusConflict,
	InUse:            http.StatusConflict,
	Conflict:         http.StatusConflict,
	Exhausted:        http.StatusConflict,
	Mode:             http.StatusConflict,
	Unsupported:      http.StatusNotImplemented,
	NotLeader:        http.StatusServiceUnavailable,
	Unavailable:      http.StatusServiceUnavailable,
	Denied:           http.StatusForbidden,
	TooLarge:         http.StatusRequestEntityTooLarge,
	Unauthenticated:  http.StatusUnauthorized,
}

// Status returns the HTTP status code for errors of a kind.
func (k Kind) Status() int { return cmp.Or(statuses[k], http.StatusInternalServerError) }
