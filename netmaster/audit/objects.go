package audit

import "iter"

// Brief is an entry of which there is one line: it names as many objects as that has room for, and counts the others.
func (e Entry) Brief() Entry {
	n := fitting(e.Objects)
	e.Objects, e.More = e.Objects[:n], len(e.Objects)-n
	return e
}

// lines are the lines of an entry: each names the next of the objects, and says all the rest as well.
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

// fitting is how many of the names of objects a line has room for.
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
