package ledger

import "github.com/contiv/netplugin/utils/fault"

// Coded is a value whose coding costs more than what a plan does with it, such
// as a record with a large map of bits. It stays decoded while the plans of a
// group change it one after the other, and is encoded once, for the commit.
type Coded[T any] interface {
	*T
	Decode([]byte) error
	Encode() ([]byte, error)
	Clone() T // shares nothing that can be changed
}

// encoder is the part of Coded that does not depend on its type.
type encoder interface{ Encode() ([]byte, error) }

// ReadCoded reads one key like Read.
func ReadCoded[T any, P Coded[T]](r Reader, key string) (T, error) {
	if tx, ok := r.(interface{ decoded(key string) encoder }); ok {
		if v, ok := tx.decoded(key).(P); ok {
			return v.Clone(), nil
		}
	}
	var v T
	if value, ok := r.Get(key); ok && P(&v).Decode(value) == nil {
		return v, nil
	}
	return Read[T](r, key) // which says what is wrong
}

// WriteCoded puts a value like Write.
func WriteCoded[T any, P Coded[T]](tx *Tx, key string, v P) error {
	own := v.Clone()
	if tx.putDecoded(key, P(&own)) {
		return nil
	}
	value, err := v.Encode()
	if err != nil {
		return fault.New(fault.Internal, "key %s: encode: %w", key, err)
	}
	tx.Put(key, value)
	return nil
}

// decoded is what a plan of this group put under a key without encoding it.
func (tx *Tx) decoded(key string) encoder {
	if !tx.owns(key) {
		return nil
	}
	tx.reads[key] = struct{}{}
	r, _ := tx.group.tree.Get(record{key: key})
	return r.decoded
}

// putDecoded replaces the value of a key by one that is encoded later. It is
// for keys that are there already, whose size gives that of the new value.
func (tx *Tx) putDecoded(key string, v encoder) bool {
	if !tx.owns(key) {
		return true
	}
	had, held := tx.group.tree.Get(record{key: key})
	if !held {
		return false
	}
	size := max(len(had.value), had.size)
	tx.group.tree.ReplaceOrInsert(record{key: key, decoded: v, size: size, rev: had.rev})
	tx.replaced(key, had, held)
	return true
}

// encoded is a record with its value.
func (r record) encoded() (record, error) {
	if r.decoded == nil {
		return r, nil
	}
	value, err := r.decoded.Encode()
	if err != nil {
		return r, fault.New(fault.Internal, "key %s: encode: %w", r.key, err)
	}
	return record{key: r.key, value: nonNil(value), rev: r.rev, terms: r.terms}, nil
}
