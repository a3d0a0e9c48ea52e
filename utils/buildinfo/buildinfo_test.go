package buildinfo

import (
	"regexp"
	"strings"
	"testing"
)

func TestEveryFactIsKnownOrSaidToBeUnknown(t *testing.T) {
	info := Get()
	if !regexp.MustCompile(`^1\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(info.Version) {
		t.Errorf("version %q is not semantic with major 1, which clients of the original want", info.Version)
	}
	for _, fact := range []string{info.Version, info.GitCommit, info.BuildTime} {
		if fact == "" {
			t.Errorf("empty fact in %+v", info)
		}
	}
	want := Info{Version: "1", GitCommit: "abc", BuildTime: "today"}
	if got := want.String(); got != "Version: 1\nGitCommit: abc\nBuildTime: today" {
		t.Errorf("got %q", got)
	}
	if lines := strings.Count(info.String(), "\n"); lines != 2 {
		t.Errorf("%d line ends", lines)
	}
}
