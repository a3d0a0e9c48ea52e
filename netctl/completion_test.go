package netctl

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// complete returns bash's candidates for a command line; netctl is a function that records its arguments and
// offers the candidates.
func complete(t *testing.T, line string, candidates ...string) (asked string, offered []string) {
	t.Helper()
	script, err := completionScripts.ReadFile("completion/netctl.bash")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--norc", "-c", string(script)+`
netctl() { printf '[%s]' "$@" >"$ASKED"; printf '%b\n' "$CANDIDATES"; }
COMP_LINE=$LINE COMP_POINT=${#LINE}
_netctl
printf '%s\n' "${COMPREPLY[@]}"
`)
	file := filepath.Join(t.TempDir(), "asked")
	cmd.Env = append(cmd.Environ(), "LINE="+line, "CANDIDATES="+strings.Join(candidates, "\n"), "ASKED="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	words, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(words), strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestBashCompletesWithWhatNetctlOffers(t *testing.T) {
	for _, c := range []struct {
		line, asked string
		candidates  []string
		offered     []string
	}{
		{"netctl network inspect we", "[__complete][network][inspect][we]", []string{"web\tdescription", "west"}, []string{"web", "west"}},
		{"netctl network inspect ", "[__complete][network][inspect][]", []string{"web"}, []string{"web"}},
		{"netctl get rule shop:i", "[__complete][get][rule][shop:i]", []string{"shop:in", "shop:into"}, []string{"in", "into"}},
		{"netctl network create --encap=v", "[__complete][network][create][--encap=v]", []string{"--encap=vlan", "--encap=vxlan"}, []string{"vlan", "vxlan"}},
		{"netctl get *", "[__complete][get][*]", nil, []string{""}},
	} {
		asked, offered := complete(t, c.line, c.candidates...)
		if asked != c.asked {
			t.Errorf("%q asks %s", c.line, asked)
		}
		if diff := cmp.Diff(c.offered, offered); diff != "" {
			t.Errorf("%q: %s", c.line, diff)
		}
	}
}

// The time that the shell waits for names.
func TestTheLineToCompleteSaysHowLongNamesMayTake(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"network inspect": completionTime, "network --request-timeout=5s inspect": 5 * time.Second,
		"--request-timeout 1m network inspect": time.Minute, "network inspect --request-timeout=soon": completionTime,
	} {
		typed := nothingTyped(rootCommand(nil, io.Discard, io.Discard))
		typed.read(strings.Fields(line))
		if typed.patience != want {
			t.Errorf("%s: %s, want %s", line, typed.patience, want)
		}
	}
}
