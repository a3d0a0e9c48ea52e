package bgp

import (
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
)

// BIRD, once refused, ends what comes next without a word, for a while.
func TestTheEndOfAConnectionDoesNotHideARefusal(t *testing.T) {
	another := refusal(2, 2)
	for _, c := range []struct {
		cause, before string
		says          bool
	}{
		{another, "", true},
		{ended, another, false},
		{ended, notTaken, false},
		{ended, saidNothing, true},
		{notTaken, another, true},
		{"connection refused", another, true},
		{another, another, false},
		{"", another, false},
	} {
		if got := says(c.cause, c.before); got != c.says {
			t.Errorf("%q after %q is told: %v, want %v", c.cause, c.before, got, c.says)
		}
	}
}

// Operators need not know the library.
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
	if got, want := refusal(header, unsynchronized), "refused: code 1(header) subcode 1(connection not synchronized): what it says is no BGP"; got != want {
		t.Errorf("garbage is told as %q, want %q", got, want)
	}
	if got := refusal(late, 0); got != saidNothing {
		t.Errorf("a neighbour that answers nothing is told as %q", got)
	}
}
