package bgp

import (
	"log/slog"
	"strings"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Why a session with a neighbour has ended, or does not begin, as operators read it. The codes of a NOTIFICATION stay beside the
// words, as logs of routers have them, too.
const (
	saidNothing = "it has said nothing for the hold time"
	unanswered  = "it has accepted a connection, and says nothing"
	ended       = "the connection has ended without a word"
	restarts    = ended + ", as when it restarts"
	isLate      = "it has not come back in its restart time"
	hardReset   = "it has ended the session by a hard reset"
	endsIt      = "it has ended the session: "
	isEnded     = "this node has ended the session: "
	refused     = "refused: "
	otherAS     = ": it is of another AS"
	noBGP       = ": what it says is no BGP"
	notTaken    = "it refuses this node, as one does that knows it by another AS; its log says why"
)

// noAnswer ends what the library says of a connection to which nobody has answered. Each end's kernel drops
// what is not signed by the password that it has (RFC 2385), without a word.
const (
	noAnswer = "i/o timeout"
	silence  = ": it is out of reach, or has another password"
)

// endings are the ends of sessions that an operator should know of. Others are steps
// of the way to a session, or a NOTIFICATION that we have sent instead of beginning one, of which the log tells.
var endings = map[api.PeerState_DisconnectReason]string{
	api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED:    saidNothing,
	api.PeerState_DISCONNECT_REASON_RESTART_TIMER_EXPIRED: isLate,
	api.PeerState_DISCONNECT_REASON_READ_FAILED:           ended,
	api.PeerState_DISCONNECT_REASON_WRITE_FAILED:          ended,
	api.PeerState_DISCONNECT_REASON_GRACEFUL_RESTART:      restarts,
	api.PeerState_DISCONNECT_REASON_HARD_RESET:            hardReset,
}

// Beginnings of what the library says of a NOTIFICATION that has ended a session; its codes come then.
const (
	notificationSent     = "notification-sent "
	notificationReceived = "notification-received "
)

// causeOf is why a session has ended, or has not begun, by what has become of a neighbour that was in another state
// before; empty: nothing worth telling.
func causeOf(before string, now *apiutil.PeerState) string {
	switch now.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT:
		return isEnded + strings.TrimPrefix(now.DisconnectMessage, notificationSent)
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED:
		return endsIt + strings.TrimPrefix(now.DisconnectMessage, notificationReceived)
	case api.PeerState_DISCONNECT_REASON_INVALID_MSG:
		if before == sessionStates[bgp.BGP_FSM_OPENCONFIRM] {
			return notTaken
		}
	}
	return endings[now.DisconnectReason]
}

// says tells whether a cause that comes after another one is to be told. A neighbour that has refused us, or was refused, may end the
// connections that follow without a word, for a while.
func says(cause, before string) bool {
	return cause != before && cause != "" && (cause != ended || before != notTaken && !strings.HasPrefix(before, refused))
}

// failureOf is why a connection failed, by what the library says; empty: nothing failed.
func failureOf(message string, fields map[string]slog.Value) string {
	switch message {
	case "failed to connect":
		text := fields["Error"].String()
		if strings.HasSuffix(text, noAnswer) {
			text += silence
		}
		return text
	case "outgoing connection IO error":
		return ended
	case "sent notification":
		code, subcode := fields["Code"], fields["Subcode"]
		if code.Kind() == slog.KindInt64 && subcode.Kind() == slog.KindInt64 {
			return refusal(uint8(code.Int64()), uint8(subcode.Int64()))
		}
	}
	return ""
}

// refusal is what a NOTIFICATION means with which we have refused a neighbour. What it says instead of what it is to
// say in its state is, of one that speaks BGP, a NOTIFICATION, which the library does not read.
func refusal(code, subcode uint8) string {
	switch text := refused + bgp.NewNotificationErrorCode(code, subcode).String(); {
	case code == bgp.BGP_ERROR_FSM_ERROR:
		return notTaken
	case code == bgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return unanswered
	case code == bgp.BGP_ERROR_MESSAGE_HEADER_ERROR:
		return text + noBGP
	case code == bgp.BGP_ERROR_OPEN_MESSAGE_ERROR && subcode == bgp.BGP_ERROR_SUB_BAD_PEER_AS:
		return text + otherAS
	default:
		return text
	}
}
