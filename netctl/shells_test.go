package netctl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built builds netctl and returns its folder. It is not this program, which includes the store and the race
// detector: a shell starts netctl dozens of times.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", dir, "github.com/contiv/netplugin/cmd/netctl")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build netctl: %v\n%s", err, out)
	}
	return dir
}

// inShell runs a script in a shell that finds netctl in a folder.
func inShell(t *testing.T, netctl, url string, shell ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "PATH="+netctl+":"+os.Getenv("PATH"), "NETMASTER="+url, "HOME="+dir, "XDG_CONFIG_HOME="+dir, "TERM=dumb")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell[0], err, out)
	}
	return string(out)
}

// zshSession types the lines of the user at a zsh on a terminal. Each ends with the text to await on the screen
// before the next one.
const zshSession = `
zmodload zsh/zpty
zpty -b shell zsh -f -i
type() { zpty -w -n shell "$1"; zpty -r shell screen "*$2*" || exit 1; print -r -- "$screen" }
type "autoload -Uz compinit; compinit -u -D; source <(netctl completion zsh); print read''y"$'\n' ready
type $'netctl --request-timeout=1m network inspect -t blue w\t\n' '"networkName": "web"'
type $'netctl --request-timeout=1m get rule -t blue shop:\t\n' 'web-in'
type $'netctl network create --encap=vl\t' 'encap=vlan'
type $'\x15netctl apply --dry-run -f sh\t\n' 'no documents in ?shop.yaml'
zpty -d shell
`

func TestShellsCompleteNamesOfLiveObjectsAndOfFiles(t *testing.T) {
	netctl, url := built(t), startStore(t).startMaster(t)
	for _, line := range []string{"tenant create blue", "network create web -t blue -s 10.7.0.0/24", "network create app -t blue -s 10.8.0.0/24",
		"policy create shop -t blue", "policy rule-add shop web-in -t blue"} {
		if got := run(t, url, line); got.code != 0 {
			t.Fatalf("netctl %s: %v", line, got)
		}
	}
	t.Run("zsh", func(t *testing.T) { inShell(t, netctl, url, "zsh", "-f", "-c", zshSession) })
	for line, want := range map[string]string{ // how long names take is not checked
		"netctl network inspect -t blue w":     "web\n",
		"netctl network inspect -t blue ":      "app\nweb\n",
		"netctl get rule -t blue shop:":        "shop:web-in\n",
		"netctl policy rule-rm shop -t blue ":  "web-in\n",
		"netctl network create --encap=vl":     "--encap=vlan\n",
		"netctl network inspect --output ":     "json\nyaml\n",
		"netctl network create -t blue ":       "",
		"netctl apply -f sh":                   "shop.yaml\n",
		"netctl network inspect app -t blue s": "",
		"netctl net ls --tenant ":              "blue\ndefault\n",
	} {
		line = strings.Replace(line, "netctl", "netctl --request-timeout=1m", 1)
		t.Run("fish/"+line, func(t *testing.T) {
			script := fmt.Sprintf("netctl completion fish | source; complete -C '%s'", line)
			if got := inShell(t, netctl, url, "fish", "--no-config", "-c", script); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
		t.Run("bash/"+line, func(t *testing.T) {
			script := fmt.Sprintf(`source <(netctl completion bash); compopt() { COMPREPLY=($(compgen -f -- "${words[-1]}")); }
COMP_LINE='%s' COMP_POINT=%d; _netctl; for word in "${COMPREPLY[@]}"; do echo "$word"; done`, line, len(line))
			typed := line[strings.LastIndex(line, " ")+1:]
			if got := inShell(t, netctl, url, "bash", "--norc", "-c", script); got != strings.ReplaceAll(want, typed[:strings.LastIndexAny(typed, ":=")+1], "") {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
