package nodeapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/utils/hostaddr"
)

// fromOutside returns the address and port at which a server on the loopback is reached as from another machine.
// It skips the test on a machine without a network.
func fromOutside(t *testing.T, local string) string {
	t.Helper()
	own, err := hostaddr.Default()
	if err != nil {
		t.Skipf("this machine has no address but loopback: %v", err)
	}
	_, port, err := net.SplitHostPort(local)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(own.String(), port)
}

// A client outside that opens all connections can neither keep the machine's own probes out, nor get more than the
// share of one address.
func TestWhoComesFromOutsideKeepsNoProbeOut(t *testing.T) {
	own := strings.TrimPrefix(start(t, &node{}), "http://")
	outside := fromOutside(t, own)
	answered := 0
	for range maxConns {
		conn, err := net.Dial("tcp", outside)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			continue // it is closed
		}
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			resp.Body.Close()
			answered++
		}
	}
	if answered != maxConns/shareOf {
		t.Errorf("one address has %d connections, want %d", answered, maxConns/shareOf)
	}
	probe := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := probe.Get("http://" + own + "/healthz")
	if err != nil {
		t.Fatalf("the probe at loopback: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the probe at loopback: %s", resp.Status)
	}
}
