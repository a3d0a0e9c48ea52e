package resources

import (
	"strings"
	"testing"
)

func TestTagsInLists(t *testing.T) {
	for list, want := range map[string]string{"": "", "100": "100", "100,200-202": "100 200 202", "1-": "", "-5": "", "x,100": "100", "202-200": ""} {
		for _, tag := range []struct {
			number int
			text   string
		}{{0, "0"}, {5, "5"}, {100, "100"}, {200, "200"}, {202, "202"}, {203, "203"}} {
			in := false
			for _, one := range strings.Fields(want) {
				in = in || one == tag.text
			}
			if InTagList(list, tag.number) != in {
				t.Errorf("%d in %q: %v", tag.number, list, !in)
			}
		}
	}
}
