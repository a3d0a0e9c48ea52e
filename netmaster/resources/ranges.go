package resources

import "strings"

// ranges writes the members of [first, last] as "1-3, 10".
func ranges(first, last uint, member func(uint) bool, name func(uint) string) string {
	var out strings.Builder
	for n := first; n <= last; n++ {
		if !member(n) {
			continue
		}
		end := n
		for end < last && member(end+1) {
			end++
		}
		if out.Len() > 0 {
			out.WriteString(", ")
		}
		out.WriteString(name(n))
		if end > n {
			out.WriteString("-" + name(end))
		}
		n = end
	}
	return out.String()
}
