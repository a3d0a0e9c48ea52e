package ledger

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// Reader reads one consistent state. Values must not be modified.
type Reader interface {
	Get(key string) ([]byte, bool)
	// Range visits the keys below a prefix in order, until visit returns false.
	Range(prefix string, visit func(key string, value []byte) bool)
	// Search visits the entries of the ledger's indexes whose term begins with
	// prefix, in order, beginning at the term from, until visit returns false.
	Search(prefix, from string, visit func(term, key string) bool)
	// NextFree returns the lowest number, beginning at from, without a value in a set (see NumberTerm); ok is
	// false if there is none of its width.
	NextFree(set string, from []byte) (free []byte, ok bool)
	// Count returns the number of values under a counted term (see CountedTerm).
	Count(what string) int
	// Revision is that of the key's last committed write; 0 for an absent key.
	Revision(key string) int64
	// Tag is the Revision of a key as a condition for writes: it stays while the key is not changed. A key that a
	// large plan has put has none until it is stored; the error is ErrStoring then, and a plan that gets it runs
	// again afterwards.
	Tag(key string) (int64, error)
	// Snapshot is the revision up to which all writes below an owned
	// prefix are in this state. Some later ones may be included, too.
	Snapshot(prefix string) int64
	// Newest is a revision that the store is known to have reached.
	Newest() int64
}

// ErrStoring means that a key belongs to a large plan that is being
// stored. That takes moments, or until the next leader has started.
var ErrStoring = errors.New("it is being stored")

// stableRevision returns the revision of a key, or ErrStoring if it was written by a large plan whose changes are still being
// stored.
func (t *tree) stableRevision(key string, rev int64) (int64, error) {
	if rev != 0 && rev == t.storing {
		return 0, fault.New(fault.Unavailable, "key %s: %w", key, ErrStoring)
	}
	return rev, nil
}

// prefixes are the prefixes that a ledger owns.
type prefixes []string

// contain reports whether a key or a narrower prefix lies below one of them.
func (p prefixes) contain(key string) bool {
	return slices.ContainsFunc(p, func(owned string) bool { return strings.HasPrefix(key, owned) })
}

func notOwned(key string) error {
	return fault.New(fault.Internal, "key %s: not below a prefix of this ledger", key)
}

// view is a Reader of a committed state.
type view struct {
	tree    *tree
	owned   prefixes
	corrupt *corruption
	decoded *ofViews
	fail    error // misuse, which fails the View
}

func (v *view) decodings() decodings { return v.decoded }

func (v *view) owns(key string) bool {
	if !v.owned.contain(key) {
		v.fail = notOwned(key)
		return false
	}
	return true
}

func (v *view) Get(key string) ([]byte, bool) {
	if !v.owns(key) {
		return nil, false
	}
	r, ok := v.tree.Get(record{key: key})
	return r.value, ok
}

func (v *view) Range(prefix string, visit func(key string, value []byte) bool) {
	if v.owns(prefix) {
		ascend(v.tree, prefix, func(r record) bool { return visit(r.key, r.value) })
	}
}

func (v *view) Revision(key string) int64 {
	if !v.owns(key) {
		return 0
	}
	r, _ := v.tree.Get(record{key: key})
	return r.rev
}

func (v *view) Tag(key string) (int64, error) { return v.tree.stableRevision(key, v.Revision(key)) }

func (v *view) Snapshot(prefix string) int64 {
	if !v.owns(prefix) {
		return 0
	}
	return v.tree.seen
}

func (v *view) Newest() int64 { return v.tree.newest }

func (v *view) reportCorrupt(key string, err error) { v.corrupt.report(key, v.Revision(key), err) }

// corruption has the corrupt values that were reported, so that one that is read in every plan is reported once per
// revision.
type corruption struct {
	log      *logrus.Entry
	mu       sync.Mutex
	reported map[string]int64
}

func newCorruption(log *logrus.Entry) *corruption {
	return &corruption{log: log, reported: map[string]int64{}}
}

func (c *corruption) report(key string, rev int64, err error) {
	c.mu.Lock()
	known, seen := c.reported[key]
	c.reported[key] = rev
	c.mu.Unlock()
	if !seen || known != rev {
		c.log.WithFields(logrus.Fields{"key": key, "revision": rev}).WithError(err).Error("corrupt value skipped")
	}
}

// reporter is a Reader that accepts reports of corrupt values.
type reporter interface{ reportCorrupt(key string, err error) }

// Read decodes the JSON value of one key.
func Read[T any](r Reader, key string) (T, error) {
	var v T
	value, ok := r.Get(key)
	if !ok {
		return v, objdb.KeyNotFound(key)
	}
	if err := json.Unmarshal(value, &v); err != nil {
		var none T
		return none, corruptValue(key, err)
	}
	return v, nil
}

// ReadShared is Read for a value that is needed often: while it is unchanged, it is decoded once for all views and
// small plans of a ledger, or for all reads of a large plan or a preview. The result, and what it refers to, must
// not be changed.
func ReadShared[T any](r Reader, key string) (*T, error) {
	in, ok := r.(remembering)
	if !ok {
		v, err := Read[T](r, key)
		return &v, err
	}
	value, _ := r.Get(key)
	if known, ok := in.decodings().known(key, value); ok {
		if v, same := known.(*T); same {
			return v, nil
		}
	}
	v, err := Read[T](r, key)
	if err == nil {
		in.decodings().keep(key, value, &v)
	}
	return &v, err
}

// ReadAll decodes the values of all keys below a prefix, in the order of keys.
// See ReadEach.
func ReadAll[T any](r Reader, prefix string) ([]T, error) {
	all := []T{}
	err := ReadEach(r, prefix, func(_ string, v T) error {
		all = append(all, v)
		return nil
	})
	return all, err
}

// ReadEach decodes the values of all keys below a prefix one after the other,
// in the order of keys, until visit fails. The prefix ends in a slash, or in a
// colon where the keys are composed. Corrupt values are skipped and reported
// once to the log with their key.
func ReadEach[T any](r Reader, prefix string, visit func(key string, v T) error) error {
	if !strings.HasSuffix(prefix, ":") {
		if err := objdb.CheckPrefix(prefix); err != nil {
			return err
		}
	}
	var failed error
	r.Range(prefix, func(key string, value []byte) bool {
		var v T
		if err := json.Unmarshal(value, &v); err != nil {
			report(r, key, corruptValue(key, err))
			return true
		}
		failed = visit(key, v)
		return failed == nil
	})
	return failed
}

// Check reports a value that cannot be decoded, like ReadAll.
func Check[T any](r Reader, key string, value []byte) {
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		report(r, key, corruptValue(key, err))
	}
}

// Write puts a value as JSON.
func Write(tx *Tx, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fault.New(fault.Internal, "key %s: encode: %w", key, err)
	}
	tx.Put(key, value)
	return nil
}

func report(r Reader, key string, err error) {
	if to, ok := r.(reporter); ok {
		to.reportCorrupt(key, err)
		return
	}
	logrus.WithField("component", "objdb").WithField("key", key).WithError(err).Error("corrupt value skipped")
}

func corruptValue(key string, err error) error {
	return fault.New(fault.Internal, "key %s: corrupt value: %w", key, err)
}

// nonNil returns an empty value instead of nil, which means no value.
func nonNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
