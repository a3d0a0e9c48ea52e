package api

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// The revision of an object is that of the store at its last change. Answers
// carry it as entity tag; a request that names the one it was made for is
// refused if there is another, so that of two editors the slower one is told.

// condition is what a request demands of the object it is about to change. The
// zero value demands nothing.
type condition struct {
	match tags // it has one of these revisions
	none  tags // it has none of these
}

// tags are revisions, or * for any; nil if there is no demand. An empty list is
// one: whoever sends it has read nothing, and must not write.
type tags []string

func conditionOf(h http.Header) condition {
	return condition{tagsOf(h, "If-Match", ""), tagsOf(h, "If-None-Match", "W/")}
}

// tagsOf reads a header. Tags are compared without the prefix, and others that
// are not in quotes match nothing: a weak tag is none to write by.
func tagsOf(h http.Header, name, prefix string) tags {
	values, there := h[name]
	if !there {
		return nil
	}
	list := tags{}
	for tag := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), prefix), `"`); tag != "" {
			list = append(list, tag)
		}
	}
	return list
}

func (t tags) has(rev int64) bool {
	return slices.Contains(t, "*") || slices.Contains(t, strconv.FormatInt(rev, 10))
}

// ifRevision is the condition that an object has a revision; 0 demands nothing.
func ifRevision(rev int64) condition {
	if rev == 0 {
		return condition{}
	}
	return condition{match: tags{strconv.FormatInt(rev, 10)}}
}

// check compares the condition with the object's revision, 0 if there is none.
func (c condition) check(kind contivmodel.Kind, key string, rev int64) error {
	switch {
	case rev == 0 && c.match != nil:
		return outdated("%s %s does not exist any more", kind.Type, key)
	case rev == 0:
		return nil
	case slices.Contains(c.none, "*"):
		return outdated("%s %s exists already", kind.Type, key)
	case c.none.has(rev):
		return outdated("%s %s has revision %d still", kind.Type, key, rev)
	case c.match == nil || c.match.has(rev):
		return nil
	case len(c.match) == 0:
		return outdated("%s %s has a revision, and If-Match names none", kind.Type, key)
	}
	return outdated("%s %s has changed since revision %s", kind.Type, key, strings.Join(c.match, ", "))
}

// outdated is the refusal of a request whose condition does not hold.
func outdated(format string, args ...any) error {
	return statusError{fault.New(fault.Conflict, format, args...), http.StatusPreconditionFailed}
}

// settle makes the answer to a change: the object as it is known now, with its
// links, and its entity tag unless it has changed again already.
func (a *API) settle(object contivmodel.Object, written []byte) (tag int64, err error) {
	err = a.ledger.View(func(r ledger.Reader) error {
		key := mastercfg.ModelKey(object.ModelType(), object.ModelKey())
		master.Complete(r, object)
		if now, ok := r.Get(key); ok && bytes.Equal(now, written) {
			tag = r.Revision(key)
		}
		return nil
	})
	return tag, err
}
