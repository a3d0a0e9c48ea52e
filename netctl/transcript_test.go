package netctl

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files testdata/*.session are sessions of a user with a cluster that has
// just been installed: a real netmaster on a real store. A session consists of
//
//	# remarks, and empty lines
//	$ netctl ...         a command; rootSocket is the netmaster's own, https://SERVER its address, FOLDER one to write in
//	< TEXT               a line that the next command reads
//	& PATH BODY          what an agent posts
//	  text               what the command wrote to stdout
//	! text               what it wrote to stderr
//	= 5                  its exit code, unless 0
//
// "go test ./netctl -update" writes all but the first four again.

func TestSessionsWithALiveNetmaster(t *testing.T) {
	files, err := filepath.Glob("testdata/*.session")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	store := startStore(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".session"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			socket := filepath.Join(t.TempDir(), "netmaster.sock")
			got := conversation{t, store.startMasterAt(t, socket), socket}.replay(string(want))
			if *updateFiles {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (write it anew with -update, if it is right):\n%s", file, diff)
			}
		})
	}
}

// conversation is a user's session with one netmaster.
type conversation struct {
	t           *testing.T
	url, socket string
}

// replay carries out the commands of a session and returns it with their output.
func (c conversation) replay(text string) string {
	var out strings.Builder
	input := ""
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "$ netctl")
		request, isPost := strings.CutPrefix(line, "& ")
		switch {
		case isCommand:
			out.WriteString(line)
			here := strings.NewReplacer(rootSocket, "unix://"+c.socket, "https://SERVER", "https"+strings.TrimPrefix(c.url, "http"), "FOLDER", c.folder())
			typed := words(here.Replace(command))
			if typed[0] == "__complete" { // names are what is looked at here, not how long they take
				typed = append([]string{"--" + requestTimeout, "1m"}, typed...)
			}
			out.WriteString(c.written(runReading(c.t, c.url, typed, input)))
			input = ""
		case isPost:
			out.WriteString(line)
			path, body, _ := strings.Cut(strings.TrimSpace(request), " ")
			post(c.t, c.url, path, body)
		case strings.HasPrefix(line, "< "):
			out.WriteString(line)
			input += strings.TrimPrefix(line, "< ")
		case strings.HasPrefix(line, "#") || line == "\n":
			out.WriteString(line)
		}
	}
	return out.String()
}

// written returns an outcome in the form of a session.
func (c conversation) written(o outcome) string {
	var out strings.Builder
	for _, part := range []struct{ mark, text string }{{"  ", o.stdout}, {"! ", o.stderr}} {
		for line := range strings.Lines(c.masked(part.text)) {
			out.WriteString(part.mark + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	if o.code != 0 {
		out.WriteString("= " + strings.TrimSpace(strings.SplitN(o.String(), "\n", 2)[0][len("exit "):]) + "\n")
	}
	return out.String()
}

// masks replace what differs from run to run.
var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`(?m)^(\s*)(Version|GitCommit|BuildTime):( +).*$`), "$1$2:$3..."},
	{regexp.MustCompile(`(?m)( version ).*$`), "${1}..."},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "SERVER"},
	{regexp.MustCompile(`((?i:epoch|revision)"?:? +)[0-9]+`), "${1}N"},
	{regexp.MustCompile(`CT1\.[a-z2-7]{10}\.[a-z2-7]{26}\.[0-9a-f]{64}`), "TOKEN"},
	{regexp.MustCompile(`ctv1_[0-9a-f]{32}_[0-9a-f]{64}`), "TOKEN"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`(?m)^Join token [a-z2-7]{10} (.*), until .*Z\.`), "Join token ID $1, until TIME."},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "PIN"},
	{regexp.MustCompile(`(clusterID"?: +"?|Cluster: +)[A-Za-z0-9-]{8,}`), "${1}CLUSTER"},
	{regexp.MustCompile(`("requestId": +)"[^"]+"`), `$1"ID"`},
	{regexp.MustCompile(`\((unknown|devel)\)|"(GitCommit|BuildTime|Version)": "[^"]*"`), "BUILD"},
}

// folder returns one in which commands may write.
func (c conversation) folder() string { return filepath.Dir(c.socket) }

func (c conversation) masked(text string) string {
	text = strings.ReplaceAll(text, c.folder(), "FOLDER")
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.by)
	}
	return text
}

// words splits a command line at blanks outside of single quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(strings.TrimSpace(line), "'") {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// Every command is used in a session, with every flag: by its long name, and
// by each of its others.
func TestEveryCommandAndFlagIsInASession(t *testing.T) {
	files, err := filepath.Glob("testdata/*.session")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]map[string]bool{} // names of flags by command
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if command, is := strings.CutPrefix(line, "$ netctl "); is {
				noteUse(used, words(command))
			}
		}
	}
	for path, cmd := range leaves() {
		if used[path] == nil {
			t.Errorf("no session uses netctl %s", path)
			continue
		}
		for _, f := range cmd.Flags {
			for _, name := range f.Names() {
				if !used[path][name] && name != "help" && name != "h" {
					t.Errorf("no session uses netctl %s -%s", path, name)
				}
			}
		}
	}
}

// noteUse records the command of a line, and its flags.
func noteUse(used map[string]map[string]bool, line []string) {
	known := nothingTyped(rootCommand(nil, io.Discard, io.Discard))
	known.read(line)
	path := strings.Join(known.path, " ")
	if used[path] == nil {
		used[path] = map[string]bool{}
	}
	for _, word := range line {
		if name, isFlag := strings.CutPrefix(word, "-"); isFlag {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
			used[path][name] = true
		}
	}
}
