package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

func TestHandshakesThatAreLeftLeaveNothing(t *testing.T) { left(t, 300, 300) }

func TestLongHandshakesThatAreLeftLeaveNothing(t *testing.T) {
	testkit.TakesLong(t)
	left(t, 10_000, 1000)
}

// hello returns the beginning of a proper client's handshake.
func hello(t *testing.T) []byte {
	t.Helper()
	said, heard := net.Pipe()
	var speaking sync.WaitGroup
	speaking.Go(func() { _ = tls.Client(said, &tls.Config{InsecureSkipVerify: true}).Handshake() }) // fails when the other end is closed
	defer func() { heard.Close(); speaking.Wait() }()
	buffer := make([]byte, 8<<10)
	n, err := heard.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return buffer[:n]
}

// left begins handshakes, some at once, and abandons each at some point; a client that makes a new connection for
// each request is served meanwhile.
func left(t *testing.T, handshakes, atOnce int) {
	c := closed(t)
	whole := hello(t)
	ways := map[string]func(net.Conn) error{
		"says nothing":    func(net.Conn) error { return nil },
		"one byte":        func(conn net.Conn) error { _, err := conn.Write(whole[:1]); return err },
		"half a hello":    func(conn net.Conn) error { _, err := conn.Write(whole[:len(whole)/2]); return err },
		"does not answer": func(conn net.Conn) error { _, err := conn.Write(whole); return err },
		"answers with nonsense": func(conn net.Conn) error {
			_, err := conn.Write(slices.Concat(whole, []byte("\x17\x03\x03\x00\x05hello")))
			return err
		},
		"resets": func(conn net.Conn) error {
			if _, err := conn.Write(whole); err != nil {
				return err
			}
			return conn.(*net.TCPConn).SetLinger(0)
		},
	}
	var names []string
	for name := range ways {
		names = append(names, name)
	}
	goroutines, files, memory := c.goroutines(), c.files(), c.resident()
	var next atomic.Int64
	var leaving, serving sync.WaitGroup
	stop := make(chan struct{})
	serving.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				t.Logf("%d requests on new connections meanwhile", n)
				return
			default:
			}
			client := c.from("127.0.0.1")
			code, answer, err := c.ask(client, "", "GET", "/version", "")
			client.CloseIdleConnections()
			if err != nil || code != http.StatusOK {
				t.Errorf("another client: %d %s %v", code, answer, err)
				return
			}
		}
	})
	for range atOnce {
		leaving.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(handshakes) {
					return
				}
				name := names[int(n)%len(names)]
				conn, err := net.Dial("tcp", c.addr)
				if err == nil {
					err = ways[name](conn)
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if name != "resets" { // the others wait until the server has had enough of them
					_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
					if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
						t.Errorf("%s: is not let go", name)
					}
				}
				_ = conn.Close()
			}
		})
	}
	leaving.Wait()
	close(stop)
	serving.Wait()
	most := c.resident()
	testkit.Eventually(t, 20*time.Second, "goroutines and files are as before", func() bool { return c.goroutines() <= goroutines+10 && c.files() <= files+5 })
	t.Logf("%d handshakes, %d at once: goroutines %d and %d after, files %d and %d, memory %d MiB and %d at their end", handshakes, atOnce,
		goroutines, c.goroutines(), files, c.files(), memory>>20, most>>20)
	if grown := most - memory; !raced && grown > 128<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	if c.cmd.ProcessState != nil {
		t.Error("netmaster has ended")
	}
}

var goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

// goroutines returns the number of goroutines in the process's metrics.
func (c *closedOne) goroutines() int {
	c.Helper()
	found := goroutinesLine.FindStringSubmatch(c.byRoot("GET", "/metrics", ""))
	if found == nil {
		c.Fatal("no metric go_goroutines")
	}
	n, _ := strconv.Atoi(found[1]) // it has digits only
	return n
}

// files returns the number of files that the process has open.
func (c *closedOne) files() int {
	c.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		c.Fatal(err)
	}
	return len(list)
}

// Old versions of TLS, for the gate also TLS 1.2, suites that are not ECDHE with AEAD, renegotiation, plain HTTP
// where TLS is required and the reverse: each gets an error as far as its protocol has one, and other clients are
// served.
func TestWhatIsNoProperTLSIsRefused(t *testing.T) {
	testkit.NeedsMachine(t)
	c := closed(t)
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		conn, err := tls.Dial("tcp", c.addr, &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	testkit.OnlyAEAD(t, c.addr)
	testkit.OnlyTLS13(t, c.addr, "h2")
	if code, answer := c.get("/api/v1/tenants/"); code != http.StatusForbidden || !strings.Contains(answer, "https://") {
		t.Errorf("plain HTTP: %d %s", code, answer)
	}
	overSocket, err := net.Dial("unix", c.dir+"/netmaster.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer overSocket.Close()
	if err := tls.Client(overSocket, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("TLS is spoken on the socket")
	}
	// openssl begins a second handshake when it reads a line R
	again := exec.Command("openssl", "s_client", "-connect", c.addr, "-tls1_2", "-no_ign_eof")
	output := &testkit.Text{}
	again.Stdout, again.Stderr = output, output
	writing, err := again.StdinPipe()
	if err == nil {
		err = again.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, "openssl is connected", func() bool { return strings.Contains(output.String(), "Verify return code") })
	if _, err := io.WriteString(writing, "R\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = again.Wait(); close(ended) }() // fails, as it should
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("a connection with a second handshake goes on")
		_ = again.Process.Kill()
		<-ended
	}
	if said := output.String(); !strings.Contains(said, "RENEGOTIATING") || !bytes.Contains([]byte(said), []byte("alert")) && !strings.Contains(said, "renegotiation") {
		t.Errorf("openssl says: %s", said)
	}
	if code, answer, err := c.ask(c.from("127.0.0.1"), "", "GET", "/version", ""); err != nil || code != http.StatusOK {
		t.Errorf("after all of it: %d %s %v", code, answer, err)
	}
}
