package bgp

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// logHandler hears what the library says of itself. Its complaints go to our log.
// Why a connection that we have begun came to nothing is said nowhere else: it is
// kept as the neighbour's last error.
//
// The library marks the paths it has given to its watchers when a session ends, and
// says that the session ends just before. That its word waits for the watcher, by
// the speaker's lock, is what orders the two, but for events that the watcher has not taken
// yet (osrg/gobgp#2705): the mark, which nobody looks at here, may be read while it is made.
//
// What it says of each message of a neighbour, before it looks into that, is where a neighbour is held up.
type logHandler struct {
	speaker *Speaker
	pace    *pace
	log     *logrus.Entry
}

// keyNeighbour is the field in which the library says whom a line is about.
const keyNeighbour = "Key"

// Enabled takes everything: the cause of a failure may be a detail to the library.
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
		if r.Message == strangerConnects {
			h.speaker.noteStranger(neighbour)
			return nil
		}
		h.speaker.noteFailure(neighbour, failureOf(r.Message, fields))
		switch r.Message {
		case holdTimeOver:
			h.speaker.noteSilence(neighbour)
		case connected:
			h.speaker.noteConnected(neighbour)
		}
	}
	return nil
}

// write logs a line about somebody if its level is logged: a value may be all prefixes of a message, which is long to write out. What
// the library complains about again and again is a detail.
func (h logHandler) write(r slog.Record, fields map[string]slog.Value, about string) {
	level := logrus.DebugLevel
	if r.Level >= slog.LevelWarn && h.speaker.complain(complaint{about, r.Message}) {
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

// holdTimeOver is what the library says of a neighbour with a session when the hold time, the lower one of both sides, is over.
// Where that one speaks graceful restart its events tell of a restart, and of nothing else.
const holdTimeOver = "hold timer expired"

// strangerConnects is what the library says of a connection that it has closed, as it was of none of its neighbours.
const strangerConnects = "Can't find configuration for a new passive connection"

// updateReceived is what the library says when a neighbour has changed routes. It reads nothing more from that one meanwhile.
const updateReceived = "received update"

func (s *Speaker) noteFailure(neighbour netip.Addr, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" {
		s.isNotReached(neighbour, text)
	}
}

// isNotReached keeps why there is no session with a neighbour, and logs what is new. It is called with the lock.
func (s *Speaker) isNotReached(neighbour netip.Addr, text string) {
	delete(s.asked, neighbour)
	status, known := s.status[neighbour]
	if !known || status.SessionState == established || !says(text, status.LastError) {
		return
	}
	status.LastError = text
	s.status[neighbour] = status
	log := s.log.WithField("neighbour", neighbour)
	log.WithField("cause", text).Log(s.levelOf(neighbour, log, logrus.WarnLevel), "BGP neighbour is not reached")
}

func (s *Speaker) noteSilence(neighbour netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saysNothing(neighbour)
}

// complain tells whether a complaint is to be a warning.
func (s *Speaker) complain(what complaint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complaints.fresh(what, time.Now())
}

// noteStranger says in the log that somebody has connected, and was closed, who is no neighbour. One that is closed for a while is none
// to the library.
func (s *Speaker) noteStranger(address netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted != nil && slices.ContainsFunc(s.wanted.Neighbours, func(n Neighbour) bool { return n.Address == address }) {
		return
	}
	if s.complaints.fresh(complaint{message: strangerConnects}, time.Now()) {
		s.log.WithField("address", address).Warn("a connection of somebody who is no BGP neighbour was closed")
	}
}

// WithAttrs adds fields to all that is written.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.log = h.log.WithField(a.Key, a.Value.String())
	}
	return h
}

// WithGroup is not needed: names are few.
func (h logHandler) WithGroup(string) slog.Handler { return h }
