// Package rest defines the common form of requests and answers. A Route is a path with its Methods, each of
// which is an Answer: a function that returns a Reply, or an error, instead of writing it.
//
// A request has a body (request.go), the revision that it was made for (condition.go), the id by which its lines in
// logs are found (requestid.go), and its transport: its source, and who can read it (origin.go). An answer is a Reply
// (reply.go), a stream of JSON lines (stream.go), or an error, whose kind is mapped to a status here and nowhere else
// (problem.go), in a form for each sort of client: a document for those that ask for it, a line of text as the
// original controller had it, and JSON as its authenticating proxy had it (denial.go).
package rest

import (
	"io"
	"net/http"
	"strconv"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Answer is a handler that returns its result instead of writing it.
type Answer func(r *http.Request) (Reply, error)

// Reply is the answer to a successful request: a body as JSON, or a text, or the result of one of the last two
// fields. A revision and an entity tag above 0 are sent in the header.
type Reply struct {
	Code     int // 0: 200; a 204 has nothing else
	Body     any // Text, or a value for jsonstream
	Revision int64
	Tag      int64
	Warning  string // for people, into the header

	// From computes the rest of the reply from a snapshot. Late
	// values are read from the same one. It may be called twice.
	From   func(ledger.Reader) (Reply, error)
	Stream func(http.ResponseWriter) // writes the answer instead
}

// Text is an answer that is not JSON.
type Text string

// Write writes the body of a reply without From and Stream.
func (r Reply) Write(out io.Writer) error {
	if text, ok := r.Body.(Text); ok {
		_, err := io.WriteString(out, string(text)+"\n")
		return err
	}
	return jsonstream.Write(out, r.Body)
}

// Send sends the header, and a body that Write has written.
func (r Reply) Send(w http.ResponseWriter, body *spool.Answer) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if _, isText := r.Body.(Text); isText {
		header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if r.Revision > 0 {
		header.Set(mastercfg.RevisionHeader, strconv.FormatInt(r.Revision, 10))
	}
	if r.Tag > 0 {
		header.Set("ETag", `"`+strconv.FormatInt(r.Tag, 10)+`"`)
	}
	if r.Warning != "" {
		header.Set(contivmodel.WarningHeader, contivmodel.FormatWarning(r.Warning))
	}
	if r.Code == http.StatusNoContent {
		w.WriteHeader(r.Code)
		return
	}
	header.Set("Content-Length", strconv.FormatInt(body.Size(), 10))
	if r.Code != 0 {
		w.WriteHeader(r.Code)
	}
	_, _ = body.WriteTo(w) // an error means that the client has gone
}
