package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

const (
	// streamPiece is so much that it is sent before the rest is known.
	streamPiece = 64 << 10
	// StreamType is the media type of streams: a JSON value per line.
	StreamType = "application/x-ndjson"
)

// stream writes lines of JSON to a client as they come. It holds what was not
// flushed yet; how long a client may take to accept that is the server's to say.
// What was not flushed when the term ended is not told.
type stream struct {
	out     http.ResponseWriter
	trusted func() error
	pending bytes.Buffer
	lines   *json.Encoder
}

// newStream begins the answer.
func newStream(out http.ResponseWriter, trusted func() error) *stream {
	s := &stream{out: out, trusted: trusted}
	s.lines = lineEncoder(&s.pending)
	out.Header().Set("Content-Type", StreamType)
	return s
}

// lineEncoder writes values to out, one to a line.
func lineEncoder(out io.Writer) *json.Encoder {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	return lines
}

// line adds a value.
func (s *stream) line(v any) error { return s.lines.Encode(v) }

// full tells that it is time to flush.
func (s *stream) full() bool { return s.pending.Len() >= streamPiece }

// flush sends what there is.
func (s *stream) flush() error {
	if err := s.trusted(); err != nil {
		return err
	}
	if _, err := s.out.Write(s.pending.Bytes()); err != nil {
		return err
	}
	s.pending.Reset()
	return http.NewResponseController(s.out).Flush()
}
