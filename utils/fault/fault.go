// Package fault gives every error of the project a kind.
//
// A kind says what the caller can do about an error; it is set once, where the error is created, and mapped once
// per boundary: to an HTTP status by the REST servers of netmaster and of nodes, to a CNI code by the CNI server,
// to an exit code by netctl. Messages name the object, the value and the cause, in that order.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind classifies an error by what its receiver can do about it.
type Kind int

const (
	// Internal is for errors without a better kind: a bug or a broken peer.
	Internal Kind = iota
	// Malformed: the request could not be decoded.
	Malformed
	// Invalid: a field of the request breaks a rule of the model.
	Invalid
	// NotFound: the object the request is about does not exist.
	NotFound
	// MissingReference: an object the request refers to does not exist.
	MissingReference
	// Immutable: the object or field cannot change after creation.
	Immutable
	// InUse: another object still refers to the object.
	InUse
	// Conflict: the request conflicts with existing state (name, address, tag, version).
	Conflict
	// Exhausted: a pool is used up.
	Exhausted
	// Mode: not possible in the present mode of the cluster.
	Mode
	// Unsupported: the type or method has no implementation.
	Unsupported
	// NotLeader: this process is not the leader, or lost the leadership during the request.
	NotLeader
	// Unavailable: the store, the switch or the leader cannot be reached; a retry helps.
	Unavailable
	// Denied: the caller has no right to do this.
	Denied
	// TooLarge: the request exceeds a documented limit.
	TooLarge
	// Unauthenticated: the caller has not proven its identity, or not validly.
	Unauthenticated
)

// names are the wire forms of kinds, as in the "reason" member of a problem document.
var names = [...]string{
	Internal: "internal", Malformed: "malformed", Invalid: "invalid", NotFound: "not-found",
	MissingReference: "missing-reference", Immutable: "immutable", InUse: "in-use",
	Conflict: "conflict", Exhausted: "exhausted", Mode: "mode", Unsupported: "unsupported",
	NotLeader: "not-leader", Unavailable: "unavailable", Denied: "denied", TooLarge: "too-large",
	Unauthenticated: "unauthenticated",
}

// String returns the wire form, for example "in-use".
func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return names[Internal]
	}
	return names[k]
}

// ParseKind is the inverse of String; an unknown name is Internal.
func ParseKind(name string) Kind {
	for k, n := range names {
		if n == name {
			return Kind(k)
		}
	}
	return Internal
}

// Error is an error with a kind. It is immutable: With* return a new error that wraps it, so that an error may be
// shared by many requests.
type Error struct {
	Kind    Kind
	Message string
	Field   string   // JSON name of the invalid field, if there is one
	Details []string // referring objects and the like, one per item: "endpointGroup blue:front"
	// Explanation is the message for users, if Message is a text for programs that lacks details: the value, the
	// rule, an example. Empty: Message is sufficient.
	Explanation string
	// Request is the id of the refused request; empty: unknown.
	Request string
	cause   error
}

// New returns an error of a kind; arguments as for fmt.Errorf, %w included.
func New(kind Kind, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: wrapped.Error(), cause: wrapped}
}

// WithField names the invalid field.
func (e *Error) WithField(name string) *Error {
	named := e.copy()
	named.Field = name
	return named
}

// WithDetails adds items that explain the refusal.
func (e *Error) WithDetails(details ...string) *Error {
	explained := e.copy()
	explained.Details = append(slices.Clip(e.Details), details...)
	return explained
}

// WithExplanation adds the message for users.
func (e *Error) WithExplanation(format string, args ...any) *Error {
	explained := e.copy()
	explained.Explanation = fmt.Sprintf(format, args...)
	return explained
}

// WithRequest sets the id of the refused request.
func (e *Error) WithRequest(id string) *Error {
	named := e.copy()
	named.Request = id
	return named
}

func (e *Error) copy() *Error {
	same := *e
	same.cause = e
	return &same
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.cause }

// RequestOf returns the id of the refused request from an error; empty: unknown.
func RequestOf(err error) string {
	for e := As(err); e != nil; e = As(e.cause) {
		if e.Request != "" {
			return e.Request
		}
	}
	return ""
}

// Explain returns the text of an error for users: that of the error, with the explanation of a wrapped Error in
// place of its message.
func Explain(err error) string {
	text := err.Error()
	for e := As(err); e != nil; e = As(e.cause) {
		if e.Explanation != "" {
			return strings.Replace(text, e.Message, e.Explanation, 1)
		}
	}
	return text
}

// KindOf returns the kind of the outermost Error in the chain; Internal without one.
func KindOf(err error) Kind {
	if e := As(err); e != nil {
		return e.Kind
	}
	return Internal
}

// As returns the outermost Error in the chain of err, or nil.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// Is reports whether err has the kind.
func Is(err error, kind Kind) bool {
	return err != nil && KindOf(err) == kind
}
