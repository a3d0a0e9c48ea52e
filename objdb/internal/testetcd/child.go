package testetcd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable has the role of a test program that runs as a child process.
const roleVariable = "OBJDB_TEST_ROLE"

// Main runs the tests of a package, or, in a process started by StartChild, its role. Call it from TestMain.
func Main(m *testing.M, roles map[string]func(args []string) error) int {
	role := os.Getenv(roleVariable)
	if role == "" {
		return m.Run()
	}
	if err := roles[role](os.Args[1:]); err != nil {
		fmt.Println(failure, err)
		return 1
	}
	return 0
}

// Child is the test program running as a child process.
type Child struct {
	Failed string // why it ended by itself; set by Kill

	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	words bytes.Buffer // standard error; read after its end
}

// failure is the prefix of the line of a failed role.
const failure = "failed:"

// StartChild starts the test program in a role; it is killed with the test.
func StartChild(t *testing.T, role string, args ...string) *Child {
	t.Helper()
	c := &Child{cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.Stderr = &c.words
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(c.Kill)
	return c
}

// Expect waits until the child prints a line.
func (c *Child) Expect(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line, open := <-c.lines:
			if line == want {
				return
			}
			if !open || strings.HasPrefix(line, failure) {
				t.Fatalf("child says %q, want %q", line, want)
			}
		case <-deadline:
			t.Fatalf("child did not say %q", want)
		}
	}
}

// Say writes a line to the child's standard input.
func (c *Child) Say(line string) { fmt.Fprintln(c.in, line) }

// Finish closes the child's standard input and waits until it ends by itself.
func (c *Child) Finish(t *testing.T) {
	t.Helper()
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	for range c.lines { // until its standard output ends
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("child: %v\n%s", err, c.words.String())
	}
}

// Kill ends the child as kill -9 does.
func (c *Child) Kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL) // may have ended already
	for line := range c.lines {
		if strings.HasPrefix(line, failure) {
			c.Failed = line
		}
	}
	_ = c.cmd.Wait() // its error says that it was killed
}
