package history

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// An apply is one call for its client, and one for each of its members in the record: the checks are about
// operations on objects, and do not distinguish applies, except that the effect of another member may explain a
// member's result (evidence.go), and that they happen together or not at all (Whole).

// applyPath is the route of an apply; below are its forms of an operation.
const applyPath = "/api/v1/apply"

type applyMember struct {
	Op             string `json:"op"`
	Type           string `json:"type"`
	Key            string `json:"key"`
	Object         any    `json:"object,omitempty"`
	IfRevision     int64  `json:"ifRevision,omitempty"`
	IgnoreNotFound bool   `json:"ignoreNotFound,omitempty"`
}

// applyRequest returns the HTTP request of an apply.
func (c *Call) applyRequest() (method, path string, body any) {
	var list []applyMember
	for i, op := range c.Members {
		m := applyMember{Op: "apply", Type: op.Type, Key: op.Key, Object: op.Object, IfRevision: max(0, c.tags[i])}
		if op.Verb == Delete {
			m = applyMember{Op: "delete", Type: op.Type, Key: op.Key, IfRevision: max(0, c.tags[i]), IgnoreNotFound: op.Lenient}
		}
		list = append(list, m)
	}
	path = applyPath
	if c.Trial {
		path += "?dryRun=true"
	}
	return http.MethodPost, path, map[string]any{"operations": list}
}

// each returns the calls that represent this one in the record.
func (c *Call) each() []*Call {
	if c.Members == nil {
		return []*Call{c}
	}
	var results struct{ Results []struct{ Result string } }
	_ = json.Unmarshal(c.Body, &results) // else there are none, which is reported
	all := make([]*Call, len(c.Members))
	for i, op := range c.Members {
		m := *c
		m.Operation, m.Tag, m.Applied, m.Members, m.Body = op, max(0, c.tags[i]), true, nil, nil
		switch {
		case c.Outcome == Refused, c.Outcome == Done && c.Trial:
			m.Outcome = Spared
		case c.Outcome == Done && i < len(results.Results):
			m.Result = results.Results[i].Result
		}
		all[i] = &m
	}
	if c.Outcome == Refused {
		all = append(all, c.blame(all)...)
	}
	for _, m := range all {
		m.mates = all
	}
	return all
}

// blame records the refusals of members; it returns those without a known member.
func (c *Call) blame(all []*Call) (strange []*Call) {
	for i, text := range c.Details {
		var named []*Call
		for _, m := range all {
			if strings.HasPrefix(text, m.Type+" "+m.Key+": ") && m.Outcome == Spared {
				named = append(named, m)
			}
		}
		if named == nil {
			m := *c
			m.Members, m.Message = nil, text
			strange = append(strange, &m) // no operation is refused in this way
			continue
		}
		kind, m := anyKind, named[0]
		if i == 0 {
			kind = c.Kind
		}
		text = strings.TrimPrefix(text, m.Type+" "+m.Key+": ")
		if at := slices.IndexFunc(named, func(m *Call) bool { return documented(m, kind, text) }); at > 0 {
			m = named[at] // a replaced object is named twice
		}
		m.Outcome, m.Message, m.Kind = Refused, text, kind
	}
	return strange
}

// anyKind is the kind of a refusal that has only a text.
const anyKind fault.Kind = -1

// documented reports whether a call may be refused with a text. Deletions may report "not found" only for their
// own object.
func documented(c *Call, kind fault.Kind, text string) bool {
	if strings.Contains(text, " not found") && c.Verb == Delete {
		return text == c.Type+" not found"
	}
	m := Call{Operation: c.Operation, Kind: kind, Message: text}
	return c.Wrong != "" || slices.ContainsFunc(refusals, func(r refusal) bool { return r.says != "" && r.is(&m) })
}

// mate reports whether is returns true for another operation of the same apply.
func (c *Call) mate(is func(*Call) bool) bool {
	return slices.ContainsFunc(c.mates, func(m *Call) bool { return m != c && is(m) })
}

// Whole reports applies that happened in part: those whose response was lost, and of which at least one operation
// is in the store. Keys of other lost calls are skipped, since their effect is not known.
func Whole(e *Evidence, fates map[*Call]Fate) []string {
	var found []string
	told := map[*Call]bool{} // applies, by first member: thousands of members may be missing
	for c, fate := range fates {
		if !c.Applied || told[c.mates[0]] || len(e.lost[c.storeKey()]) > 1 {
			continue
		}
		if m := e.missing(c, fate.Revision); m != nil {
			told[c.mates[0]] = true
			found = append(found, "revision "+itoa(fate.Revision)+": happened without a part of the same apply: "+c.String()+"; the part is "+m.String())
		}
	}
	return found
}

// missing returns an operation of the apply of c that has not happened at a revision, or nil.
func (e *Evidence) missing(c *Call, revision int64) *Call {
	for _, m := range c.mates {
		key := m.storeKey()
		if len(e.lost[key]) > 1 || len(e.during(key, revision, revision, Post, Delete)) > 0 {
			continue
		}
		if there := e.log.At(key, revision) != nil; there != (m.Verb == Post) {
			return m
		}
	}
	return nil
}
