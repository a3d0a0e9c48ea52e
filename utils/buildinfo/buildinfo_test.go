package buildinfo

import (
	"strings"
	"testing"
)

func TestEveryFactIsKnownOrSaidToBeUnknown(t *testing.T) {
	info := Get()
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
