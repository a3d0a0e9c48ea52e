package resources

import "strings"

// ranges formats the members of [first, last] as "1-3, 10". nextIn and nextOut return the first member, or
// non-member, from a number on.
func ranges(first, last uint, nextIn, nextOut func(uint) uint, name func(uint) string) string {
	var out strings.Builder
	for begin := nextIn(first); begin <= last; {
		after := min(nextOut(begin), last+1)
		if out.Len() > 0 {
			out.WriteString(", ")
		}
		out.WriteString(name(begin))
		if end := after - 1; end > begin {
			out.WriteString("-" + name(end))
		}
		begin = nextIn(after)
	}
	return out.String()
}
