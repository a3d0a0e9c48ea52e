package ovsd

import (
	"fmt"
	"strings"
	"testing"
)

// After a reboot all links are gone, and each DEL changes the error about the remaining ones: its length does not
// grow with their number.
func TestManyLinksThatAreGoneAreAShortProblem(t *testing.T) {
	var endpoints []string
	for i := range 500 {
		endpoints = append(endpoints, fmt.Sprintf("web.blue-%064d (vvport%d)", i, i))
	}
	if err := errLinksGone(nil); err != nil {
		t.Errorf("of none: %v", err)
	}
	if text := fmt.Sprint(errLinksGone(endpoints[:1])); text != "the link is gone of endpoint "+endpoints[0] {
		t.Errorf("of one: %s", text)
	}
	if text := fmt.Sprint(errLinksGone(endpoints)); len(text) > 1000 || !strings.Contains(text, "(vvport4) and of 495 more") {
		t.Errorf("of many: %s", text)
	}
}
