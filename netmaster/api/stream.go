package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

const (
	// StreamWrite is how long a client may take to accept a piece of a stream.
	StreamWrite = 10 * time.Second
	// streamPiece is so much that it is sent before the rest is known.
	streamPiece = 64 << 10
	// StreamType is the media type of streams: a JSON value per line.
	StreamType = "application/x-ndjson"
)

// stream writes lines of JSON to a client as they come. It holds at most one
// piece, and each has to be accepted in time: a client that does not read is
// let go.
type stream struct {
	out     http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration // for a piece to be accepted
	pending bytes.Buffer
	lines   *json.Encoder
}

// newStream begins the answer.
func newStream(out http.ResponseWriter) *stream {
	s := &stream{out: out, control: http.NewResponseController(out), limit: StreamWrite}
	s.lines = json.NewEncoder(&s.pending)
	s.lines.SetEscapeHTML(false)
	out.Header().Set("Content-Type", StreamType)
	return s
}

// end leaves time for the last words of the connection.
func (s *stream) end() { _ = s.control.SetWriteDeadline(time.Now().Add(s.limit)) }

// line adds a value.
func (s *stream) line(v any) error {
	if err := s.lines.Encode(v); err != nil {
		return err
	}
	if s.pending.Len() < streamPiece {
		return nil
	}
	return s.flush()
}

// flush sends what there is.
func (s *stream) flush() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
		return err
	}
	if _, err := s.out.Write(s.pending.Bytes()); err != nil {
		return err
	}
	s.pending.Reset()
	return s.control.Flush()
}
