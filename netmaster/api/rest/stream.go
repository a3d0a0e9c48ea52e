package rest

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

// Stream writes lines of JSON to a client as they come. It holds what was not
// flushed yet; how long a client may take to accept that is the server's to say.
// What was not flushed when the term ended is not told.
type Stream struct {
	out     http.ResponseWriter
	trusted func() error
	pending bytes.Buffer
	lines   *json.Encoder
}

// NewStream begins the answer.
func NewStream(out http.ResponseWriter, trusted func() error) *Stream {
	s := &Stream{out: out, trusted: trusted}
	s.lines = Lines(&s.pending)
	out.Header().Set("Content-Type", StreamType)
	return s
}

// Lines writes values to out, one to a line.
func Lines(out io.Writer) *json.Encoder {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	return lines
}

// Line adds a value.
func (s *Stream) Line(v any) error { return s.lines.Encode(v) }

// Full tells that it is time to flush.
func (s *Stream) Full() bool { return s.pending.Len() >= streamPiece }

// Flush sends what there is.
func (s *Stream) Flush() error {
	if err := s.trusted(); err != nil {
		return err
	}
	if _, err := s.out.Write(s.pending.Bytes()); err != nil {
		return err
	}
	s.pending.Reset()
	return http.NewResponseController(s.out).Flush()
}
