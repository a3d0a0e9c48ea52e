package ledger

import (
	"testing"
)

// Views and plans committed in groups share the decoded form of a record while the record is unchanged.
func TestPlansAndViewsShareWhatIsDecoded(t *testing.T) {
	l, _, _ := newLedger(t)
	type value struct{ N int }
	const key = state + "shared"
	read := func(r Reader) *value {
		t.Helper()
		v, err := ReadShared[value](r, key)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var first, again, own, other *value
	update := func(plan func(*Tx) error) {
		t.Helper()
		if _, err := l.Update(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *Tx) error { return Write(tx, key, value{1}) })
	update(func(tx *Tx) error { first = read(tx); return nil })
	update(func(tx *Tx) error {
		again = read(tx)
		if err := Write(tx, key, value{2}); err != nil {
			return err
		}
		own = read(tx)
		return nil
	})
	if err := l.View(func(r Reader) error { other = read(r); return nil }); err != nil {
		t.Fatal(err)
	}
	if again != first || *first != (value{1}) || *own != (value{2}) || own == first || other != own {
		t.Errorf("a plan reads %p %v, the next one %p, and behind its own change %p %v, a view %p", first, *first, again, own, *own, other)
	}
	var dry *value
	if err := l.Preview(t.Context(), func(tx *Tx) error { dry = read(tx); return nil }); err != nil {
		t.Fatal(err)
	}
	if dry == other || *dry != *other {
		t.Errorf("a preview shares %p with others, or reads %v", dry, *dry)
	}
}
