package fault

import (
	"cmp"
	"net/http"
)

// statuses are the status codes of HTTP by kind; a kind that is left out has that of an internal error.
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

// Status is the status code of HTTP for errors of a kind.
func (k Kind) Status() int { return cmp.Or(statuses[k], http.StatusInternalServerError) }
