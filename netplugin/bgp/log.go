package bgp

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// logHandler receives the library's log. Warnings are passed to the log of the speaker. Only that log has the
// reason why a connection to a neighbour failed: it becomes the neighbour's last error.
//
// A line of the library's log blocks the library until the handler returns. Two things rely on that:
//
//   - The library marks paths that it has passed to its watchers when a session ends, and logs the
//     end of the session just before. The handler takes the speaker's lock (Enabled), which
//     callbacks hold, so the mark is not set while a callback reads its paths. Events that are still
//     queued are not protected (osrg/gobgp#2705); the mark itself is not used here.
//   - The library logs each UPDATE of a neighbour before it processes it: there pace delays neighbours.
type logHandler struct {
	speaker *Speaker
	pace    *pace
	log     *logrus.Entry
}

// keyNeighbour is the field with the neighbour's address in the library's lines.
const keyNeighbour = "Key"

// Enabled accepts every level: the library logs some causes of failures at debug level. For the lock see logHandler.
func (h logHandler) Enabled(context.Context, slog.Level) bool {
	h.speaker.mu.Lock()
	defer h.speaker.mu.Unlock()
	return true
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == updateReceived {
		h.pace.wait()
	}
	fields := make(map[string]slog.Value, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		fields[a.Key] = a.Value
		return true
	})
	text, _ := h.log.Data[keyNeighbour].(string)
	if own, ok := fields[keyNeighbour]; ok {
		text = own.String()
	}
	h.write(r, fields, text)
	if neighbour, err := netip.ParseAddr(text); err == nil {
		if r.Message == unknownPeerConnects {
			h.speaker.noteUnknownPeer(neighbour)
			return nil
		}
		h.speaker.noteConnectFailure(neighbour, connectFailureOf(r.Message, fields))
		switch r.Message {
		case holdTimerExpired:
			h.speaker.noteHoldTimerExpired(neighbour)
		case neighbourAccepted:
			h.speaker.noteConnected(neighbour)
		}
	}
	return nil
}

// write logs a line about a neighbour. Its fields are formatted only if the level is enabled, since one may have
// all prefixes of a message. Repeated warnings of the library are logged at debug level.
func (h logHandler) write(r slog.Record, fields map[string]slog.Value, about string) {
	level := logrus.DebugLevel
	if r.Level >= slog.LevelWarn && h.speaker.shouldWarn(warning{about, r.Message}) {
		level = logrus.WarnLevel
	}
	if !h.log.Logger.IsLevelEnabled(level) {
		return
	}
	line := make(logrus.Fields, len(fields))
	for key, value := range fields {
		line[key] = value.String()
	}
	h.log.WithFields(line).Log(level, r.Message)
}

// holdTimerExpired is the library's message when the hold time of a session, the lower of both sides, has expired.
// If the neighbour supports graceful restart, the library's events report a restart instead.
const holdTimerExpired = "hold timer expired"

// unknownPeerConnects is the library's message when it has closed a connection from an unknown address.
const unknownPeerConnects = "Can't find configuration for a new passive connection"

// updateReceived is the library's message when it has read an UPDATE, before it reads more from that neighbour.
const updateReceived = "received update"

func (s *Speaker) noteConnectFailure(neighbour netip.Addr, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" {
		s.connectFailed(neighbour, text)
	}
}

// connectFailed records why there is no session with a neighbour, and logs it if that is new. The caller holds the
// lock.
func (s *Speaker) connectFailed(neighbour netip.Addr, text string) {
	delete(s.awaitingOpen, neighbour)
	status, known := s.status[neighbour]
	if !known || status.SessionState == established || !isNewCause(text, status.LastError) {
		return
	}
	status.LastError = text
	s.status[neighbour] = status
	log := s.log.WithField("neighbour", neighbour)
	log.WithField("cause", text).Log(s.levelOf(neighbour, log, logrus.WarnLevel), "BGP neighbour is not reached")
}

func (s *Speaker) noteHoldTimerExpired(neighbour netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdTimerExpired(neighbour)
}

// shouldWarn reports whether a warning of the library is to be logged as one.
func (s *Speaker) shouldWarn(what warning) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loggedWarnings.shouldLog(what, time.Now())
}

// noteUnknownPeer logs that a connection from an unknown address was closed. The library does not know neighbours
// that are closed for a while either; they are not logged.
func (s *Speaker) noteUnknownPeer(address netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted != nil && slices.ContainsFunc(s.wanted.Neighbours, func(n Neighbour) bool { return n.Address == address }) {
		return
	}
	if s.loggedWarnings.shouldLog(warning{message: unknownPeerConnects}, time.Now()) {
		s.log.WithField("address", address).Warn("a connection of somebody who is no BGP neighbour was closed")
	}
}

// WithAttrs adds fields to every line.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.log = h.log.WithField(a.Key, a.Value.String())
	}
	return h
}

// WithGroup ignores groups: the names of fields do not collide.
func (h logHandler) WithGroup(string) slog.Handler { return h }
