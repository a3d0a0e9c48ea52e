package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

const (
	// streamPiece is the amount of data, in bytes, after which Full reports true.
	streamPiece = 64 << 10
	// StreamType is the media type of streams: a JSON value per line.
	StreamType = "application/x-ndjson"
)

// Stream writes lines of JSON to a client. It holds the lines that were not flushed yet; the server limits how
// long a client may take to accept them. Lines that were not flushed when the term ended are not sent.
type Stream struct {
	out     http.ResponseWriter
	trusted func() error
	pending bytes.Buffer
	lines   *json.Encoder
}

// NewStream starts the answer.
func NewStream(out http.ResponseWriter, trusted func() error) *Stream {
	s := &Stream{out: out, trusted: trusted}
	s.lines = Lines(&s.pending)
	out.Header().Set("Content-Type", StreamType)
	return s
}

// Lines returns an encoder that writes one value per line to out.
func Lines(out io.Writer) *json.Encoder {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	return lines
}

// Line adds a value.
func (s *Stream) Line(v any) error { return s.lines.Encode(v) }

// Full reports whether Flush should be called.
func (s *Stream) Full() bool { return s.pending.Len() >= streamPiece }

// Flush sends the pending lines.
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
