package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheNodeByHandOfTheDocumentationWorks runs the commands of
// docs/operations.md as they stand there, in one directory of its own.
func TestTheNodeByHandOfTheDocumentationWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	const (
		dir   = "/tmp/by-hand"
		enter = "bin/testbed --dir " + dir + " shell node1\n"
		leave = "\nexit\n"
	)
	_, commands, _ := strings.Cut(string(page), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	up, rest, entered := strings.Cut(commands, enter)
	inside, down, left := strings.Cut(rest, leave)
	if !entered || !left {
		t.Fatalf("commands on a node and outside are not told apart:\n%s", commands)
	}
	own := filepath.Join(t.TempDir(), "bed")
	there := func(text string) string { return strings.ReplaceAll(text, dir, own) }
	t.Cleanup(func() {
		if err := runHere(t, "sh", "-ec", there(down)); err != nil {
			t.Errorf("down: %v", err)
		}
	})
	if err := runHere(t, "sh", "-ec", there(up)); err != nil {
		t.Fatalf("up: %v", err)
	}
	shell := strings.Fields(there(enter))
	if err := runHere(t, append(shell, "sh", "-ec", inside)...); err != nil {
		t.Errorf("on the node: %v", err)
	}
}

// runHere runs a command at the top of the tree, where pages assume their reader, and logs its output.
func runHere(t *testing.T, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "../.."
	// A file, not a pipe: the daemons that are started keep it open.
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	said, _ := os.ReadFile(out.Name())
	t.Logf("%s\n%s", args[len(args)-1], said)
	return err
}
