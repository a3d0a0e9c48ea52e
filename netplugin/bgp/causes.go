package bgp

import (
	"log/slog"
	"strings"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Reasons why a session with a neighbour has ended, or does not begin, for operators. They include the codes of a
// NOTIFICATION, which logs of routers have, too.
const (
	causeHoldTimerExpired     = "it has said nothing for the hold time"
	causeNoOpen               = "it has accepted a connection, and says nothing"
	causeClosed               = "the connection has ended without a word"
	causeRestart              = causeClosed + ", as when it restarts"
	causeRestartTimeExpired   = "it has not come back in its restart time"
	causeHardReset            = "it has ended the session by a hard reset"
	causeNotificationReceived = "it has ended the session: "
	causeNotificationSent     = "this node has ended the session: "
	causeRefused              = "refused: "
	suffixOtherAS             = ": it is of another AS"
	suffixNotBGP              = ": what it says is no BGP"
	causeRefusedByNeighbour   = "it refuses this node, as one does that knows it by another AS; its log says why"
)

// timeoutEnding is the end of the library's message about a connection that timed out. A wrong password is one reason: the
// kernels of both ends silently drop segments that are not signed with theirs (RFC 2385).
const (
	timeoutEnding = "i/o timeout"
	suffixTimeout = ": it is out of reach, or has another password"
)

// causeByReason are the reasons for a disconnect that an operator should know of. The others are steps
// towards a session, or follow a NOTIFICATION of ours instead of a session, which connectFailureOf reads from the log.
var causeByReason = map[api.PeerState_DisconnectReason]string{
	api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED:    causeHoldTimerExpired,
	api.PeerState_DISCONNECT_REASON_RESTART_TIMER_EXPIRED: causeRestartTimeExpired,
	api.PeerState_DISCONNECT_REASON_READ_FAILED:           causeClosed,
	api.PeerState_DISCONNECT_REASON_WRITE_FAILED:          causeClosed,
	api.PeerState_DISCONNECT_REASON_GRACEFUL_RESTART:      causeRestart,
	api.PeerState_DISCONNECT_REASON_HARD_RESET:            causeHardReset,
}

// Prefixes of the library's messages about a NOTIFICATION that has ended a session; the codes follow.
const (
	notificationSent     = "notification-sent "
	notificationReceived = "notification-received "
)

// causeOf returns why a session has ended, or has not begun, by the previous and present state of the neighbour.
// It is empty if there is nothing to report to an operator.
func causeOf(before string, now *apiutil.PeerState) string {
	switch now.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT:
		return causeNotificationSent + strings.TrimPrefix(now.DisconnectMessage, notificationSent)
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED:
		return causeNotificationReceived + strings.TrimPrefix(now.DisconnectMessage, notificationReceived)
	case api.PeerState_DISCONNECT_REASON_INVALID_MSG:
		if before == sessionStates[bgp.BGP_FSM_OPENCONFIRM] {
			return causeRefusedByNeighbour
		}
	}
	return causeByReason[now.DisconnectReason]
}

// isNewCause reports whether a cause is to be reported after another one. After a refusal by either side, the
// neighbour may close further connections without a NOTIFICATION for a while; that does not replace the refusal.
func isNewCause(cause, before string) bool {
	return cause != before && cause != "" && (cause != causeClosed || before != causeRefusedByNeighbour && !strings.HasPrefix(before, causeRefused))
}

// connectFailureOf returns why a connection failed, by a line of the library's log; empty if none failed.
func connectFailureOf(message string, fields map[string]slog.Value) string {
	switch message {
	case "failed to connect":
		text := fields["Error"].String()
		if strings.HasSuffix(text, timeoutEnding) {
			text += suffixTimeout
		}
		return text
	case "outgoing connection IO error":
		return causeClosed
	case "sent notification":
		code, subcode := fields["Code"], fields["Subcode"]
		if code.Kind() == slog.KindInt64 && subcode.Kind() == slog.KindInt64 {
			return refusalText(uint8(code.Int64()), uint8(subcode.Int64()))
		}
	}
	return ""
}

// refusalText returns the meaning of a NOTIFICATION with which the node has refused a neighbour. An FSM error
// means that the neighbour has sent an unexpected message: from a BGP speaker, a NOTIFICATION, which the library
// does not read in that state.
func refusalText(code, subcode uint8) string {
	switch text := causeRefused + bgp.NewNotificationErrorCode(code, subcode).String(); {
	case code == bgp.BGP_ERROR_FSM_ERROR:
		return causeRefusedByNeighbour
	case code == bgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return causeNoOpen
	case code == bgp.BGP_ERROR_MESSAGE_HEADER_ERROR:
		return text + suffixNotBGP
	case code == bgp.BGP_ERROR_OPEN_MESSAGE_ERROR && subcode == bgp.BGP_ERROR_SUB_BAD_PEER_AS:
		return text + suffixOtherAS
	default:
		return text
	}
}
