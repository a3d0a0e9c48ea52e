package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// A journal has the changes of a large plan, stored before it is committed:
//
//	<attempt>/000000 ...   the changes, in parts
//	prepared               all parts are stored; its revision is that of the plan
//	committed              the plan is committed
//	<attempt>/stored       how many of the changes are stored
//
// below journal/<lock>/. Every attempt has its own parts and its own mark "prepared", so that a late write of
// an earlier attempt cannot be taken for a part of this one.
const (
	journalRoot = "/contiv.io/journal/"
	damagedRoot = "/contiv.io/journal-damaged/" // unreadable journals
)

// change is the net change of one key by a group.
type change struct {
	key    string
	value  []byte
	delete bool
	base   int64 // revision before

	together bool // in one transaction with adjacent changes of this kind
	place    int  // in its journal, from 1
}

// size returns an upper bound of the size of the change in a transaction.
func (c change) size() int { return 2*len(c.key) + len(c.value) + 64 }

func (c change) puts() bool { return !c.delete }

// journaled is one change in a part of a journal.
type journaled struct {
	Key    string `json:"key"`
	Value  []byte `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`

	Together bool `json:"together,omitempty"`
}

// mark is the value of "committed".
type mark struct {
	Attempt string `json:"attempt,omitempty"`
	Parts   int    `json:"parts"`
	At      int64  `json:"at,omitempty"` // revision of the plan; 0: that of the mark
}

// journal returns the keys of a journal.
type journal struct{ prefix string }

func journalOf(term *objdb.Term) journal { return journal{journalRoot + term.Lock() + "/"} }

func (j journal) prepared() string { return j.prefix + "prepared" }

func (j journal) committed() string { return j.prefix + "committed" }

// of returns the prefix of an attempt. Journals of versions without attempts have none.
func (j journal) of(attempt string) string {
	if attempt != "" {
		attempt += "/"
	}
	return j.prefix + attempt
}

func (j journal) part(attempt string, number int) string {
	return fmt.Sprintf("%s%06d", j.of(attempt), number)
}

// stored returns the key of the progress: the number of stored changes in decimal digits. Earlier versions, which
// complete a journal without reading it, leave it unchanged.
func (j journal) stored(attempt string) string { return j.of(attempt) + "stored" }

// encode splits changes into the parts of a journal.
func (j journal) encode(attempt string, changed []change) ([]objdb.KV, error) {
	var all []objdb.KV
	for len(changed) > 0 {
		var part []journaled
		for size := 0; len(changed) > 0; changed = changed[1:] {
			c := changed[0]
			size += c.size()
			if len(part) > 0 && size > politeBytes {
				break
			}
			part = append(part, journaled{c.key, c.value, c.delete, c.together})
		}
		value, err := json.Marshal(part)
		if err != nil {
			return nil, fault.New(fault.Internal, "journal: encode: %w", err)
		}
		all = append(all, objdb.KV{Key: j.part(attempt, len(all)), Value: value})
	}
	return all, nil
}

// attempts matches the names of attempts.
var attempts = regexp.MustCompile(`^[0-9a-f-]{0,40}$`)

// decode reads a journal from all keys below its prefix: the changes of a committed plan, or nil without one.
// Others may have written there, so everything is validated; owned are the permitted prefixes of changes.
func (j journal) decode(kvs []objdb.KV, owned prefixes) (*decided, error) {
	stored := make(map[string]objdb.KV, len(kvs))
	for _, kv := range kvs {
		stored[kv.Key] = kv
	}
	marked, ok := stored[j.committed()]
	if !ok {
		return nil, nil
	}
	var m mark
	if err := strictly(marked.Value, &m); err != nil {
		return nil, corruptValue(marked.Key, err)
	}
	if m.At == 0 {
		m.At = marked.CreateRevision
	}
	if m.Parts < 1 || m.Parts > len(kvs) || m.At < 0 || m.At > marked.CreateRevision || !attempts.MatchString(m.Attempt) {
		return nil, fault.New(fault.Internal, "key %s: %s does not describe a journal of %d keys", marked.Key, marked.Value, len(kvs))
	}
	d := newDecided(marked.CreateRevision, m.At, j.stored(m.Attempt))
	for number := range m.Parts {
		kv, ok := stored[j.part(m.Attempt, number)]
		if !ok {
			return nil, fault.New(fault.Internal, "key %s: part %d of %d is missing", marked.Key, number, m.Parts)
		}
		if err := d.decode(kv, owned); err != nil {
			return nil, err
		}
	}
	if noted, ok := stored[d.progress]; ok {
		if err := d.removeStored(noted); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// decode adds the changes of one part.
func (d *decided) decode(kv objdb.KV, owned prefixes) error {
	var part []journaled
	if err := strictly(kv.Value, &part); err != nil {
		return corruptValue(kv.Key, err)
	}
	for _, c := range part {
		switch {
		case !owned.contain(c.Key):
			return corruptValue(kv.Key, notOwned(c.Key))
		case d.waits(c.Key):
			return corruptValue(kv.Key, fmt.Errorf("key %s is changed twice", c.Key))
		case c.Delete && len(c.Value) > 0:
			return corruptValue(kv.Key, fmt.Errorf("key %s is put and deleted", c.Key))
		}
		d.add(change{key: c.Key, value: c.Value, delete: c.Delete, together: c.Together})
	}
	return nil
}

// strictly decodes JSON without unknown fields or trailing data.
func strictly(value []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("has something behind its end")
	}
	return nil
}

// recover finishes the work of a former leader's journal: it completes a plan that was committed, drops one that
// was not, and moves a damaged journal aside, which must not prevent every leader. It returns the revision of its
// last change below the owned prefixes; 0: none.
func (c *committer) recover(ctx context.Context) (written int64, err error) {
	kvs, _, err := c.db.List(ctx, c.journal.prefix)
	if err != nil || len(kvs) == 0 {
		return 0, err
	}
	d, err := c.journal.decode(kvs, c.owned)
	if err != nil {
		c.log.WithError(err).Errorf("a journal cannot be read; its keys are moved below %s, see there which changes are lost", damagedRoot)
		return 0, c.setAside(ctx)
	}
	var parts []string
	if d != nil {
		parts = append(parts, d.progress)
		count := d.left()
		for d.left() > 0 {
			if _, err := c.storeSome(ctx, d); err != nil {
				return 0, err
			}
		}
		written = d.rev
		c.log.WithField("changes", count).Info("finished a commit that was interrupted")
	}
	for _, kv := range kvs {
		if kv.Key != c.journal.committed() && kv.Key != c.journal.prepared() {
			parts = append(parts, kv.Key)
		}
	}
	return written, c.dropJournal(ctx, parts)
}

// setAside moves the stored part of a damaged journal aside.
func (s *shared) setAside(ctx context.Context) (err error) {
	for range maxTries {
		kvs, _, failed := s.db.List(ctx, s.journal.prefix)
		if failed != nil {
			return failed
		}
		if err = s.inOrder(ctx, s.moves(kvs)); !errors.Is(err, errConflict) {
			break
		}
		// A key was written or deleted since it was read, by a transaction of ours with a lost answer.
	}
	return err
}

// moves returns the transactions that move the keys of a journal aside, the mark last: until then every reader
// sees a damaged journal. Each compares that its key is unchanged, so that a late one does not touch the next
// journal.
func (s *shared) moves(kvs []objdb.KV) []objdb.Txn {
	var first, last []objdb.Txn
	for _, kv := range kvs {
		to := fmt.Sprintf("%s%s/%d/%s", damagedRoot, s.term.Lock(), kv.ModRevision, strings.TrimPrefix(kv.Key, s.journal.prefix))
		move := objdb.Txn{If: []objdb.Guard{objdb.Unchanged(kv)}, Puts: []objdb.KV{{Key: to, Value: kv.Value}}, Deletes: []string{kv.Key}}
		if kv.Key == s.journal.committed() {
			last = append(last, move)
		} else {
			first = append(first, move)
		}
	}
	return append(first, last...)
}

// dropJournal deletes the stored marks, and parts. It can be retried after an error.
func (s *shared) dropJournal(ctx context.Context, parts []string) (err error) {
	for range maxTries {
		if err = s.dropOnce(ctx, parts); !errors.Is(err, errConflict) {
			break
		}
		// A mark was written or deleted since it was read, by a transaction of ours with a lost answer.
	}
	return err
}

func (s *shared) dropOnce(ctx context.Context, parts []string) error {
	txns, err := s.deletions(ctx, parts)
	if err != nil {
		return err
	}
	return s.inOrder(ctx, txns)
}

// inOrder sends transactions one after the other.
func (s *shared) inOrder(ctx context.Context, txns []objdb.Txn) error {
	for _, txn := range txns {
		if _, err := fenced(s.term.Txn(ctx, txn)); err != nil {
			return err
		}
	}
	return nil
}

// deletions returns the transactions that delete the present marks, and then parts, some at a time. The marks of all
// attempts have the same keys: a deletion compares which they are, so that a late one does not delete those of the
// next attempt.
func (s *shared) deletions(ctx context.Context, parts []string) (all []objdb.Txn, err error) {
	var same []objdb.Guard
	marks := []string{s.journal.committed(), s.journal.prepared()}
	for _, mark := range marks {
		kv, err := s.db.Get(ctx, mark)
		switch {
		case err == nil:
			same = append(same, objdb.SameIncarnation(mark, kv.CreateRevision))
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	if len(same) == 0 {
		marks = nil
	}
	for some := range slices.Chunk(slices.Concat(marks, parts), objdb.FewOps) {
		all = append(all, objdb.Txn{If: same, Deletes: some})
		same = nil
	}
	return all, nil
}
