package ledger

import (
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
)

// Some terms are numbers that must be unique: an address of a network, a tag, an id. An allocator needs the
// lowest free number, and iterating over all used ones would make each allocation more expensive than the last.
//
// So the tree also has a trie of blocks over them, one level per byte of the number. A block of the last level
// has a bit for each of its 256 numbers that is used; a block above has a bit for each block below that is
// full. The next free number is found in one descent. Empty blocks do not exist, so that only the used numbers
// of a set matter, not its size.

// numberMark is the prefix of terms that are numbers.
const numberMark = "#"

// NumberTerm is the term of a number in a set, which an Index returns for the record with the number. All
// numbers of a set have the same width, so that the terms sort like the numbers. Without a number it is the
// prefix of all terms of the set.
func NumberTerm(set string, number []byte) string {
	return numberMark + set + "/" + hex.EncodeToString(number)
}

// Number returns the number in a term of a set.
func Number(set, term string) (number []byte, ok bool) {
	digits, ok := strings.CutPrefix(term, NumberTerm(set, nil))
	if !ok {
		return nil, false
	}
	number, err := hex.DecodeString(digits)
	return number, err == nil
}

// block is a node of the trie, named by the part of the terms above it.
type block struct {
	prefix string
	bits   [4]uint64
}

func (b block) less(other block) bool { return b.prefix < other.prefix }

func (b block) full() bool {
	return b.bits == [4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
}
func (b block) empty() bool { return b.bits == [4]uint64{} }

// nextClear returns the first clear bit, beginning at from.
func (b block) nextClear(from byte) (byte, bool) {
	mask := uint64(1)<<(from%64) - 1 // earlier bits count as set
	for word := from / 64; word < 4; word++ {
		if clear := ^(b.bits[word] | mask); clear != 0 {
			return word*64 + byte(bits.TrailingZeros64(clear)), true
		}
		mask = 0
	}
	return 0, false
}

// digitsOf returns where the digits of a number begin in its term; ok is false for other terms.
func digitsOf(term string) (begin int, ok bool) {
	if !strings.HasPrefix(term, numberMark) {
		return 0, false
	}
	begin = strings.LastIndexByte(term, '/') + 1
	_, err := hex.DecodeString(term[begin:])
	return begin, err == nil
}

// occupy marks the number of a term as used.
func (t *tree) occupy(term string) {
	begin, ok := digitsOf(term)
	for at := len(term) - 2; ok && at >= begin; at -= 2 {
		b, _ := t.blocks.Get(block{prefix: term[:at]})
		b.prefix = term[:at]
		n := byteAt(term, at)
		b.bits[n/64] |= 1 << (n % 64)
		t.blocks.ReplaceOrInsert(b)
		if !b.full() {
			return
		}
	}
}

// vacate marks the number of a term as free unless another key has it as well.
func (t *tree) vacate(term string) {
	begin, ok := digitsOf(term)
	if !ok || t.held(term) {
		return
	}
	for at := len(term) - 2; at >= begin; at -= 2 {
		b, _ := t.blocks.Get(block{prefix: term[:at]})
		wasFull := b.full()
		n := byteAt(term, at)
		b.bits[n/64] &^= 1 << (n % 64)
		if b.empty() {
			t.blocks.Delete(b)
		} else {
			t.blocks.ReplaceOrInsert(b)
		}
		if !wasFull {
			return
		}
	}
}

// held reports whether a key has the term.
func (t *tree) held(term string) (found bool) {
	t.entries.AscendGreaterOrEqual(entry{term: term}, func(e entry) bool {
		found = e.term == term
		return false
	})
	return found
}

func byteAt(term string, at int) byte {
	var one [1]byte
	_, _ = hex.Decode(one[:], []byte(term[at:at+2])) // checked by digitsOf
	return one[0]
}

// nextFree returns the lowest free number, beginning at from; nil if there is none.
func (t *tree) nextFree(prefix string, from []byte) []byte {
	if len(from) == 0 {
		return nil
	}
	b, _ := t.blocks.Get(block{prefix: prefix})
	begin, rest := from[0], from[1:]
	for n, ok := b.nextClear(begin); ok; n, ok = b.nextClear(n + 1) {
		if len(rest) == 0 {
			return []byte{n}
		}
		if n > begin {
			rest = make([]byte, len(rest)) // from the start of a later block
		}
		if below := t.nextFree(prefix+hex.EncodeToString([]byte{n}), rest); below != nil {
			return slices.Insert(below, 0, n)
		}
		if n == 0xff {
			break
		}
	}
	return nil
}

// NextFree implements Reader.
func (v *view) NextFree(set string, from []byte) ([]byte, bool) {
	free := v.tree.nextFree(NumberTerm(set, nil), from)
	return free, free != nil
}

// NextFree implements Reader. Like Search it has no guard. A large plan only relies on the number still being
// free, not on lower ones being used.
func (tx *Tx) NextFree(set string, from []byte) ([]byte, bool) {
	free := tx.group.tree.nextFree(NumberTerm(set, nil), from)
	if free != nil {
		term := NumberTerm(set, free)
		tx.group.searched(span{term, term + "\x00"})
	}
	return free, free != nil
}
