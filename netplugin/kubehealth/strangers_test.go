package kubehealth

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// Any client reaches these ports. None can exhaust the memory of the node by its requests, nor the places of load
// balancers.
func TestStrangersTakeNeitherMemoryNorThePlacesOfOthers(t *testing.T) {
	outside, err := hostaddr.Default()
	if err != nil {
		t.Skipf("this machine has no address but loopback: %v", err)
	}
	port := netip.MustParseAddrPort(testkit.FreeAddress()).Port()
	n := newNode()
	n.set(agent.KubeHealth{Ports: map[uint16]agent.HealthPort{port: {Namespace: "shop", Name: "web", Backends: 1}}}, nil)
	s := New(n, servesAsBefore, testkit.Quiet())
	s.fixed = nil // this machine may have a proxy
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	defer running.Wait()
	defer cancel()
	at := netip.AddrPortFrom(outside, port).String()
	testkit.Eventually(t, time.Minute, "the port is open", func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})

	big := "GET / HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", 64<<10)
	ended := make(chan bool)
	const strangers = 64
	for range strangers {
		go func() {
			began := time.Now()
			conn, err := net.Dial("tcp", at)
			if err != nil {
				ended <- true
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(began.Add(time.Minute))
			_, _ = io.WriteString(conn, big) // without an end
			said, _ := io.ReadAll(conn)
			// What is held ends with the time for headers.
			ended <- strings.Contains(string(said), " 431 ") || time.Since(began) < headerTime
		}()
	}
	held := 0
	for range strangers {
		if !<-ended {
			held++
		}
	}
	if held > 0 {
		t.Errorf("%d of %d headers without an end are held", held, strangers)
	}

	ask := func(host netip.Addr) error {
		client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + netip.AddrPortFrom(host, port).String())
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	// An answered client has a place. The server may still count some of those above.
	for range ofOne {
		testkit.Eventually(t, time.Minute, "there is a place", func() bool {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				return false
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return false
			}
			_, err = http.ReadResponse(bufio.NewReader(conn), nil)
			return err == nil
		})
	}
	if ask(outside) == nil {
		t.Error("one connection too many of one address is served")
	}
	if err := ask(netip.AddrFrom4([4]byte{127, 0, 0, 1})); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}
