package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/contiv/netplugin/utils/fault"
)

// ApplyPath accepts many changes at once. They are one plan: either all of them are made or, if one is refused, none.
const ApplyPath = "/api/v1/apply"

const (
	// MaxBody is the largest accepted request body, in bytes.
	MaxBody = 1 << 20
	// MaxApply is the same for ApplyPath.
	MaxApply = 16 << 20
	// drained is how much of a larger body is read and dropped: a client
	// that is disconnected while it writes would not see the answer.
	drained = 32 << 20
)

// ReadBody reads the whole body of a request.
func ReadBody(r *http.Request) ([]byte, error) {
	limit := int64(MaxBody)
	if strings.TrimSuffix(r.URL.Path, "/") == ApplyPath {
		limit = MaxApply
	}
	tooLarge := fault.New(fault.TooLarge, "request body too large: the limit is %d bytes", limit)
	if r.ContentLength > limit && r.Header.Get("Expect") != "" {
		return nil, tooLarge // the client waits for 100 Continue before it sends
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if fault.Is(err, fault.Unavailable) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Malformed, "request body: %w", err)
	}
	if int64(len(body)) > limit {
		_, _ = io.CopyN(io.Discard, r.Body, drained) // it is refused whatever follows
		return nil, tooLarge
	}
	if !utf8.Valid(body) {
		return nil, fault.New(fault.Malformed, "request body is not JSON: it is not UTF-8") // decoding would replace bytes
	}
	return body, nil
}

// Flag reads a boolean of the query; it is false when absent.
func Flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	on, err := strconv.ParseBool(cmp.Or(text, "false"))
	if err != nil {
		return false, fault.New(fault.Invalid, "%s %s is neither true nor false", name, text).WithField(name)
	}
	return on, nil
}

// WithBody returns an Answer for a function of the body, which is decoded and checked.
func WithBody[Request any, P interface {
	*Request
	Check() error
}](serve func(*http.Request, P) (Reply, error)) Answer {
	return func(r *http.Request) (Reply, error) {
		body, err := ReadBody(r)
		if err != nil {
			return Reply{}, err
		}
		var request Request
		// Like for the model's objects, data after the first value is ignored.
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&request); err != nil {
			return Reply{}, malformed(err)
		}
		if err := P(&request).Check(); err != nil {
			return Reply{}, err
		}
		return serve(r, &request)
	}
}

// malformed describes an error of a body in terms of JSON instead of Go.
func malformed(err error) error {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return fault.New(fault.Malformed, "request body takes no %s", wrongType.Value)
	case wrongType != nil:
		return fault.New(fault.Malformed, "field %q takes no %s", wrongType.Field, wrongType.Value).WithField(wrongType.Field)
	}
	return fault.New(fault.Malformed, "request body is not JSON: %w", err)
}

// ReadInto decodes the body.
func ReadInto(r *http.Request, into any) error {
	body, err := ReadBody(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return malformed(err)
	}
	return nil
}
