package rest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// The revision of an object is that of the store at its last change. Answers have
// it as entity tag. A request with the tag that it was made for is refused if the
// object has another, so that of two editors the slower one learns of the conflict.

// Condition is a request's condition on the object that it changes. The zero value is no condition.
type Condition struct {
	match tags // the revision must be one of these
	none  tags // the revision must be none of these
}

// Demands reports whether there is a condition.
func (c Condition) Demands() bool { return c.match != nil || c.none != nil }

// tags are revisions, or * for any; nil if there is no condition. An empty list is one that never holds: its
// client has read nothing, and must not write.
type tags []string

// ConditionOf returns the condition in a header.
func ConditionOf(h http.Header) Condition {
	return Condition{tagsOf(h, "If-Match", ""), tagsOf(h, "If-None-Match", "W/")}
}

// tagsOf parses a header. Tags are compared without the prefix; tags without quotes match nothing, so a weak
// tag is no condition to write by.
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

// IfRevision returns the condition that an object has a revision; 0 is no condition.
func IfRevision(rev int64) Condition {
	if rev == 0 {
		return Condition{}
	}
	return Condition{match: tags{strconv.FormatInt(rev, 10)}}
}

// Check compares the condition with the object's revision, 0 if there is none.
func (c Condition) Check(kind contivmodel.Kind, key string, rev int64) error {
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

// outdated returns the refusal of a request whose condition does not hold.
func outdated(format string, args ...any) error {
	return WithStatus(http.StatusPreconditionFailed, fault.New(fault.Conflict, format, args...))
}
