package audit

import "iter"

// Brief returns an entry for a single line: it has as many objects as the line has room for, and the number of the
// others.
func (e Entry) Brief() Entry {
	n := fitting(e.Objects)
	e.Objects, e.More = e.Objects[:n], len(e.Objects)-n
	return e
}

// lines returns the lines of an entry: each has the next objects, and everything else.
func (e Entry) lines() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for left := e.Objects; ; e.Untold = 0 {
			n := fitting(left)
			e.Objects, left = left[:n], left[n:]
			if !yield(e.cut()) || len(left) == 0 {
				return
			}
		}
	}
}

// fitting returns how many of the objects' names a line has room for.
func fitting(names []string) (n int) {
	bytes := 0
	for _, name := range names {
		if bytes += min(len(name), longestText); bytes > longestList {
			break
		}
		n++
	}
	return n
}
