package history

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A guarded operation has the revision that its client saw last or, if it saw none, the condition that the object
// does not exist.

// noObject is the tag of a call with the condition that the object does not exist.
const noObject = -1

// tagOf returns the condition of an operation by a client that has seen these revisions.
func tagOf(op Operation, seen map[string]int64) int64 {
	switch tag := seen[op.storeKey()]; {
	case !op.Guarded:
		return 0
	case tag == 0 && op.Verb == Post:
		return noObject
	default:
		return tag
	}
}

// guard writes the condition of a call to its header.
func (c *Call) guard(h http.Header) {
	switch {
	case c.Tag == noObject:
		h.Set("If-None-Match", "*")
	case c.Tag > 0:
		h.Set("If-Match", fmt.Sprintf("%q", itoa(c.Tag)))
	}
}

// remember records the revisions in a call's response.
func (c *Call) remember(seen map[string]int64) {
	if key := c.storeKey(); c.Verb == Post || c.Verb == Get {
		if delete(seen, key); c.Outcome == Done && c.ETag > 0 {
			seen[key] = c.ETag
		}
	}
}

func etagOf(h http.Header) int64 {
	tag, _ := strconv.ParseInt(strings.Trim(h.Get("ETag"), `"`), 10, 64) // most responses have none
	return tag
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Tags reports entity tags that are not a revision of their object, and changes that were made although the object
// was not as the client had seen it.
func Tags(e *Evidence) []string {
	var found []string
	for _, c := range e.calls {
		if c.Outcome != Done {
			continue
		}
		if c.ETag > 0 && !e.had(c.storeKey(), c.ETag, c.ETag, c.ETag) {
			found = append(found, fmt.Sprintf("no revision of the object is %d: %s", c.ETag, c))
		}
		// The object before the change or, if nothing had to be changed, now. A lenient deletion may find nothing.
		if absent := c.Lenient && c.Result == "unchanged"; c.Tag > 0 && !absent && !e.had(c.storeKey(), c.Tag, e.log.before(c.Revision), c.Revision) {
			found = append(found, fmt.Sprintf("not the object it was for: %s", c))
		}
	}
	return found
}

// had reports whether an object had a revision at some revision of a window.
func (e *Evidence) had(key string, tag, from, to int64) bool {
	for _, v := range e.log.Alive(key, from, to) {
		if v.From == tag {
			return true
		}
	}
	return false
}

// outdated: the object may have had another revision than the call's condition.
func outdated(e *Evidence, c *Call) bool {
	for _, v := range e.log.Alive(c.storeKey(), c.From, c.To) {
		if v.From != c.Tag {
			return true
		}
	}
	return len(e.during(c.storeKey(), c.From, c.To, Post)) > 0 || c.mate(func(m *Call) bool { return m.storeKey() == c.storeKey() })
}
