package resources

import (
	"strconv"
	"strings"
)

// InTagList reports whether a tag is in a list such as "100,200-299". Parts that are not numbers are ignored.
func InTagList(list string, tag int) bool {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, errLow := strconv.Atoi(first)
		high, errHigh := strconv.Atoi(last)
		if errLow == nil && errHigh == nil && low <= tag && tag <= high {
			return true
		}
	}
	return false
}
