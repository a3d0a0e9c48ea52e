package objdb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb/embedded"
)

// roleVariable makes the test binary play a process that a test can kill.
const roleVariable = "OBJDB_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// play does what the child is for until its standard input ends.
func play(role string, args []string) error {
	ttl, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	var member *embedded.Server
	value := "child"
	if role == "member" {
		value = args[2]
		if member, err = startMember(args[2], args[3], args[0], args[4]); err != nil {
			return err
		}
		<-member.Ready()
		fmt.Println("ready")
	}
	db, err := Open(Config{Endpoints: args[:1], Log: quiet()})
	if err != nil {
		return err
	}
	if role == "writer" {
		return writeMany(db, ttl)
	}
	go func() {
		if _, err := db.Campaign(context.Background(), CampaignConfig{Lock: lock, Value: value, TTL: ttl}); err == nil {
			fmt.Println("leading")
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "lead store" {
			if err := leadStore(db, args[0]); err != nil {
				return err
			}
			fmt.Println("leads store")
		}
	}
	return nil
}

func startMember(name, dir, url, cluster string) (*embedded.Server, error) {
	peers := map[string]string{}
	for _, p := range strings.Split(cluster, ",") {
		n, u, _ := strings.Cut(p, "=")
		peers[n] = u
	}
	return embedded.Start(context.Background(), embedded.Config{
		Dir: dir, Name: name, ClientURL: url, PeerURL: peers[name], Peers: peers, Log: quiet(),
	})
}

// leadStore moves the store's leadership to the member at url.
func leadStore(db *DB, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := db.connect()
	if err != nil {
		return err
	}
	own, err := c.Status(ctx, url)
	if err != nil || own.Leader == own.Header.MemberId {
		return err
	}
	members, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range members.Members {
		if m.ID == own.Leader {
			c, err := clientv3.New(clientv3.Config{Endpoints: m.ClientURLs})
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.MoveLeader(ctx, own.Header.MemberId)
			return err
		}
	}
	return fmt.Errorf("leader %x is not a member", own.Leader)
}

// child is a process played by the test binary.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startChild(t *testing.T, role string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
	t.Cleanup(c.kill)
	return c
}

// expect waits until the child says a line.
func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case line, open := <-c.lines:
			if line == want {
				return
			}
			if !open || strings.HasPrefix(line, "failed") {
				t.Fatalf("child says %q, want %q", line, want)
			}
		case <-deadline:
			t.Fatalf("child did not say %q", want)
		}
	}
}

func (c *child) say(line string) { fmt.Fprintln(c.in, line) }

// kill ends the child as kill -9 does.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL) // may be gone already
	_ = c.cmd.Wait()                          // says that it was killed
}
