package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// The revision of an object is that of the store at its last change. Answers
// carry it as entity tag; a request that names the one it was made for is
// refused if there is another, so that of two editors the slower one is told.

// condition is what a request demands of the object it is about to change. The
// zero value demands nothing.
type condition struct {
	revisions []string // one of these; nil: any, or none
	exists    bool     // If-Match: *
	absent    bool     // If-None-Match: *
}

func conditionOf(h http.Header) condition {
	c := condition{absent: strings.TrimSpace(h.Get("If-None-Match")) == "*"}
	for tag := range strings.SplitSeq(strings.Join(h.Values("If-Match"), ","), ",") {
		switch tag = strings.Trim(strings.TrimSpace(tag), `"`); tag {
		case "":
		case "*":
			c.exists = true
		default:
			c.revisions = append(c.revisions, tag)
		}
	}
	return c
}

// ifRevision is the condition that an object has a revision; 0 demands nothing.
func ifRevision(rev int64) condition {
	if rev == 0 {
		return condition{}
	}
	return condition{revisions: []string{strconv.FormatInt(rev, 10)}}
}

// check compares the condition with the object's revision, 0 if there is none.
func (c condition) check(kind contivmodel.Kind, key string, rev int64) error {
	switch {
	case c.absent && rev != 0:
		return outdated("%s %s exists already", kind.Type, key)
	case (c.exists || c.revisions != nil) && rev == 0:
		return outdated("%s %s does not exist any more", kind.Type, key)
	case c.exists || c.revisions == nil:
		return nil
	}
	for _, wanted := range c.revisions {
		if wanted == strconv.FormatInt(rev, 10) {
			return nil
		}
	}
	return outdated("%s %s has changed since revision %s", kind.Type, key, strings.Join(c.revisions, ", "))
}

// outdated is the refusal of a request whose condition does not hold.
func outdated(format string, args ...any) error {
	return statusError{fault.New(fault.Conflict, format, args...), http.StatusPreconditionFailed}
}

// settle makes the answer to a change: the object as it is known now, with its
// links, and its entity tag unless it has changed again already.
func (a *API) settle(object contivmodel.Object, written []byte) (tag int64, err error) {
	err = a.ledger.View(func(r objdb.Reader) error {
		key := mastercfg.ModelKey(object.ModelType(), object.ModelKey())
		master.Complete(r, object)
		if now, ok := r.Get(key); ok && bytes.Equal(now, written) {
			tag = r.Revision(key)
		}
		return nil
	})
	return tag, err
}
