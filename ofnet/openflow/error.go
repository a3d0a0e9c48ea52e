package openflow

import (
	"fmt"

	"github.com/contiv/netplugin/utils/fault"
)

// Error is an error message with which the switch refused a request.
type Error struct {
	Type         uint16
	Code         uint16 // with TypeExperimenterError: the code of the experimenter
	Experimenter uint32
	Data         []byte // first bytes of the refused message
	Request      string // description of the refused message
}

// TypeExperimenterError is the type of errors that an experimenter defines.
const TypeExperimenterError = 0xffff

// Error names the message and the reason of the switch.
func (e *Error) Error() string {
	if e.Request == "" {
		return "switch reports " + e.Reason()
	}
	return fmt.Sprintf("switch refuses %s: %s", e.Request, e.Reason())
}

// Unwrap returns an error of kind Invalid: the request is wrong, not the connection.
func (e *Error) Unwrap() error { return fault.New(fault.Invalid, "%s", e.Reason()) }

// Unsupported reports whether the switch does not support messages of this type.
func (e *Error) Unsupported() bool {
	const badRequest, badType, badExperimenter, badExperimenterType = 1, 1, 3, 4
	return e.Type == badRequest && (e.Code == badType || e.Code == badExperimenter || e.Code == badExperimenterType)
}

// Reason returns the type and code in words, such as "bad match: bad prerequisite".
func (e *Error) Reason() string {
	if e.Type == TypeExperimenterError {
		if e.Experimenter == experimenterONF && e.Code >= firstBundleError {
			return "bundle failed: " + name(e.Code-firstBundleError, bundleErrors)
		}
		return fmt.Sprintf("error %d of experimenter %#x", e.Code, e.Experimenter)
	}
	if int(e.Type) >= len(errorTypes) {
		return fmt.Sprintf("error type %d code %d", e.Type, e.Code)
	}
	return errorTypes[e.Type].text + ": " + name(e.Code, errorTypes[e.Type].codes)
}

// messageType, String and encodeBody make the refusal a message.
func (*Error) messageType() Type { return TypeError }

func (e *Error) String() string { return e.Error() }

func (e *Error) encodeBody(w *encoder) {
	w.u16(e.Type)
	w.u16(e.Code)
	if e.Type == TypeExperimenterError {
		w.u32(e.Experimenter)
	}
	w.raw(e.Data)
}

func (d *decoder) switchError() *Error {
	e := &Error{Type: d.u16(), Code: d.u16()}
	if e.Type == TypeExperimenterError {
		e.Experimenter = d.u32()
	}
	e.Data = d.rest()
	return e
}

// errorTypes are the errors of OpenFlow 1.3 in words, indexed by type and code.
var errorTypes = []struct {
	text  string
	codes []string
}{
	{"hello failed", []string{"no compatible version", "permission denied"}},
	{"bad request", []string{"bad version", "bad type", "bad multipart type", "bad experimenter", "bad experimenter type",
		"permission denied", "bad length", "buffer is empty", "buffer is unknown", "bad table", "is slave", "bad port",
		"bad packet", "multipart request too long"}},
	{"bad action", []string{"bad type", "bad length", "bad experimenter", "bad experimenter type", "bad output port",
		"bad argument", "permission denied", "too many", "bad queue", "bad output group", "inconsistent with the match",
		"order not supported", "bad tag", "bad set_field type", "bad set_field length", "bad set_field argument"}},
	{"bad instruction", []string{"unknown", "not supported", "bad table", "metadata not supported",
		"metadata mask not supported", "bad experimenter", "bad experimenter type", "bad length", "permission denied",
		"duplicate"}},
	{"bad match", []string{"bad type", "bad length", "bad tag", "bad link-layer mask", "bad network mask",
		"bad wildcards", "bad field", "bad value", "bad mask", "bad prerequisite", "duplicate field", "permission denied"}},
	{"flow-mod failed", []string{"unknown reason", "table full", "bad table", "overlaps", "permission denied",
		"bad timeout", "bad command", "bad flags"}},
	{"group-mod failed", []string{"group exists", "invalid group", "weights not supported", "out of groups",
		"out of buckets", "chaining not supported", "watch not supported", "loop", "unknown group", "chained group",
		"bad type", "bad command", "bad bucket", "bad watch", "permission denied"}},
	{"port-mod failed", []string{"bad port", "bad hardware address", "bad config", "bad advertise", "permission denied"}},
	{"table-mod failed", []string{"bad table", "bad config", "permission denied"}},
	{"queue operation failed", []string{"bad port", "bad queue", "permission denied"}},
	{"switch configuration failed", []string{"bad flags", "bad length", "permission denied"}},
	{"role request failed", []string{"stale", "unsupported", "bad role"}},
	{"meter-mod failed", []string{"unknown reason", "meter exists", "invalid meter", "unknown meter", "bad command",
		"bad flags", "bad rate", "bad burst", "bad band", "bad band value", "out of meters", "out of bands"}},
	{"table features failed", []string{"bad table", "bad metadata", "bad type", "bad length", "bad argument", "permission denied"}},
}

// firstBundleError is the first of the ONF's errors about bundles.
const firstBundleError = 2300

var bundleErrors = []string{"unknown reason", "permission denied", "bad id", "bundle exists", "bundle is closed",
	"out of bundles", "bad type", "bad flags", "message of bad length", "message of bad xid", "message not supported",
	"message conflict", "too many messages", "message failed", "timeout", "bundle in progress"}
