package netplugin

import (
	"regexp"
	"testing"
)

// Clients of the original controller refuse another major version.
func TestTheVersionIsASemanticOneWithTheMajorOfTheOriginal(t *testing.T) {
	if !regexp.MustCompile(`^1\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`).MatchString(Version()) {
		t.Error(Version())
	}
}
