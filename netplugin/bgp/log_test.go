package bgp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// BIRD, once refused, closes the next connections without a notification, for a while.
func TestTheEndOfAConnectionDoesNotHideARefusal(t *testing.T) {
	another := refusalText(2, 2)
	for _, c := range []struct {
		cause, before string
		says          bool
	}{
		{another, "", true},
		{causeClosed, another, false},
		{causeClosed, causeRefusedByNeighbour, false},
		{causeClosed, causeHoldTimerExpired, true},
		{causeRefusedByNeighbour, another, true},
		{"connection refused", another, true},
		{another, another, false},
		{"", another, false},
	} {
		if got := isNewCause(c.cause, c.before); got != c.says {
			t.Errorf("%q after %q is told: %v, want %v", c.cause, c.before, got, c.says)
		}
	}
}

// Operators need no knowledge of the library.
func TestWhyASessionHasEndedIsSaidInWords(t *testing.T) {
	for _, c := range []struct {
		reason  api.PeerState_DisconnectReason
		message string
		want    string
	}{
		{api.PeerState_DISCONNECT_REASON_READ_FAILED, "read-failed", "the connection has ended without a word"},
		{api.PeerState_DISCONNECT_REASON_WRITE_FAILED, "write-failed", "the connection has ended without a word"},
		{api.PeerState_DISCONNECT_REASON_GRACEFUL_RESTART, "graceful-restart", "the connection has ended without a word, as when it restarts"},
		{api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED, "hold-timer-expired", "it has said nothing for the hold time"},
		{api.PeerState_DISCONNECT_REASON_RESTART_TIMER_EXPIRED, "restart-timer-expired", "it has not come back in its restart time"},
		{api.PeerState_DISCONNECT_REASON_HARD_RESET, "hard-reset", "it has ended the session by a hard reset"},
		{api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED, "notification-received code 6(cease) subcode 2(administrative shutdown)",
			"it has ended the session: code 6(cease) subcode 2(administrative shutdown)"},
		{api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT, "notification-sent code 3(update) subcode 1(malformed attribute list)",
			"this node has ended the session: code 3(update) subcode 1(malformed attribute list)"},
		{api.PeerState_DISCONNECT_REASON_IDLE_TIMER_EXPIRED, "idle-hold-timer-expired", ""},
	} {
		if got := causeOf(established, &apiutil.PeerState{DisconnectReason: c.reason, DisconnectMessage: c.message}); got != c.want {
			t.Errorf("%s is told as %q, want %q", c.message, got, c.want)
		}
	}
	const header, unsynchronized, late = 1, 1, 4
	if got, want := refusalText(header, unsynchronized), "refused: code 1(header) subcode 1(connection not synchronized): what it says is no BGP"; got != want {
		t.Errorf("garbage is told as %q, want %q", got, want)
	}
	if got := refusalText(late, 0); got != causeNoOpen {
		t.Errorf("a neighbour that answers nothing is told as %q", got)
	}
}

// logOf returns a speaker, its log, with all levels, and the handler for the library's messages.
func logOf(t *testing.T) (*Speaker, slog.Handler, *logtest.Hook) {
	t.Helper()
	logger, hook := logtest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	s := New(Config{Log: logrus.NewEntry(logger)})
	return s, logHandler{s, nil, s.log}, hook
}

// warnings counts the lines that are no details.
func warnings(hook *logtest.Hook) (count int) {
	for _, e := range hook.AllEntries() {
		if e.Level <= logrus.WarnLevel {
			count++
		}
	}
	return count
}

// The library logs each connection of a neighbour that connects without end.
func TestTheLibrarySaysTheSameOfANeighbourOnceAMinute(t *testing.T) {
	s, handler, hook := logOf(t)
	complain := func(about string) {
		line := slog.NewRecord(time.Now(), slog.LevelWarn, "Closed an accepted connection", 0)
		if err := handler.WithAttrs([]slog.Attr{slog.String(keyNeighbour, about)}).Handle(context.Background(), line); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		complain("192.0.2.1")
		complain("192.0.2.2")
	}
	if got := warnings(hook); got != 2 {
		t.Errorf("10 complaints about two neighbours each are %d warnings, want 2", got)
	}
	if got := len(hook.AllEntries()); got != 20 {
		t.Errorf("%d lines, want 20", got)
	}
	s.loggedWarnings.forget(time.Now().Add(logPause))
	complain("192.0.2.1")
	if got := warnings(hook); got != 3 {
		t.Errorf("later there are %d warnings, want 3", got)
	}
}

// Strangers are named; however many there are, they do not fill the log.
func TestWhoIsNoNeighbourAndConnectsIsTold(t *testing.T) {
	s, handler, hook := logOf(t)
	s.Configure(&Settings{Neighbours: []Neighbour{{Address: netip.MustParseAddr("192.0.2.1")}}})
	connects := func(who string) {
		line := slog.NewRecord(time.Now(), slog.LevelInfo, unknownPeerConnects, 0)
		line.AddAttrs(slog.String("Topic", "Server"), slog.String(keyNeighbour, who))
		if err := handler.Handle(context.Background(), line); err != nil {
			t.Fatal(err)
		}
	}
	connects("192.0.2.1") // is closed for a while
	if got := warnings(hook); got != 0 {
		t.Errorf("a neighbour that is closed is told of as a stranger")
	}
	for i := range 100 {
		connects(fmt.Sprint("198.51.100.", i))
	}
	if got := warnings(hook); got != 1 {
		t.Fatalf("100 strangers are %d warnings, want 1", got)
	}
	for _, e := range hook.AllEntries() {
		if e.Level == logrus.WarnLevel && fmt.Sprint(e.Data["address"]) != "198.51.100.0" {
			t.Errorf("the first stranger is told as %v", e.Data)
		}
	}
}

// The library waits for minutes. A kernel accepts connections for a process that hangs.
func TestWhoAcceptsAConnectionAndSaysNothingIsToldSoon(t *testing.T) {
	s, handler, hook := logOf(t)
	silent, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, neighbour := range []netip.Addr{silent, other} {
		s.status[neighbour] = PeerStatus{}
		line := slog.NewRecord(time.Now(), slog.LevelDebug, neighbourAccepted, 0)
		if err := handler.WithAttrs([]slog.Attr{slog.String(keyNeighbour, neighbour.String())}).Handle(context.Background(), line); err != nil {
			t.Fatal(err)
		}
	}
	s.peerChanged(&apiutil.WatchEventMessage_PeerEvent{Type: apiutil.PEER_EVENT_STATE,
		Peer: apiutil.Peer{State: apiutil.PeerState{NeighborAddress: other, SessionState: bgp.BGP_FSM_OPENCONFIRM}}})
	begun := time.Now()
	if next := s.reportUnanswered(begun); next <= 0 || next > answerTime || warnings(hook) != 0 {
		t.Errorf("at first it is looked again after %s, with %d warnings", next, warnings(hook))
	}
	if next := s.reportUnanswered(begun.Add(answerTime)); next != 0 {
		t.Errorf("at last it is looked again after %s", next)
	}
	if got, want := s.status[silent].LastError, "it has accepted a connection, and says nothing"; got != want || warnings(hook) != 1 {
		t.Errorf("told as %q, want %q, by %d warnings", got, want, warnings(hook))
	}
	if got := s.status[other].LastError; got != "" {
		t.Errorf("who has answered is told as %q", got)
	}
}
