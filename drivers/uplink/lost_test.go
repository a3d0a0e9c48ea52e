package uplink_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// lossy is a proxy of a switch's database that returns no more answers once the first connection has asked for a
// change. Later connections wait until they are let through.
type lossy struct {
	runDir string
	asked  atomic.Bool   // for a change
	cut    chan struct{} // closed: ends the first connection
	open   chan struct{} // closed: lets the others through
}

func (n *node) lossy() *lossy {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "lossy") // the path of a socket must be short
	if err != nil {
		n.t.Fatal(err)
	}
	l := &lossy{runDir: dir, cut: make(chan struct{}), open: make(chan struct{})}
	listener, err := net.Listen("unix", filepath.Join(dir, "db.sock"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = listener.Close() // ends the loop
		if err := os.RemoveAll(dir); err != nil {
			n.t.Error(err)
		}
	})
	go func() {
		for first := true; ; first = false {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if !first {
				<-l.open
			}
			server, err := net.Dial("unix", filepath.Join(n.RunDir, "db.sock"))
			if err != nil {
				_ = client.Close()
				continue
			}
			go l.pass(server, client, func(data []byte) bool {
				if first && bytes.Contains(data, []byte(`"mutate"`)) {
					l.asked.Store(true)
				}
				return true
			})
			go l.pass(client, server, func([]byte) bool { return !first || !l.asked.Load() })
			if first {
				go func() {
					<-l.cut
					_, _ = client.Close(), server.Close()
				}()
			}
		}
	}()
	return l
}

// pass forwards data, as long as may allows it, until the connection ends.
func (l *lossy) pass(to, from net.Conn, may func(data []byte) bool) {
	defer to.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !may(buffer[:n]) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// A change may be done although its answer is lost. The host does not move to a local port
// that ovs-vswitchd is about to take down for another MAC.
func TestTheHostWaitsForALocalPortWhoseAnswerIsLost(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	b, stop := n.keep("", "up1") // the local port has its MAC
	n.says(b, "")
	n.reaches("by the other link")
	stop()
	n.Exec("ip", "link", "set", uplink.DefaultBridge, "up") // as it is on a host that is reached by another link
	n.eventually("ovs-vswitchd has seen that", func() bool {
		return strings.Contains(n.Vsctl("get", "interface", uplink.DefaultBridge, "admin_state"), "up")
	})

	resume := sync.OnceFunc(n.PauseVswitchd())
	defer resume()
	way := n.lossy()
	config := n.config("", "up0")
	config.RunDir = way.runDir
	b, _ = n.run(config)
	n.eventually("the change is done", func() bool {
		return way.asked.Load() && strings.Contains(n.Vsctl("--no-wait", "list", "bridge", uplink.DefaultBridge), "hwaddr")
	})
	close(way.cut)
	n.eventually("the answer is lost", func() bool { return b.Problem() != "" })
	close(way.open)
	n.says(b, "") // it has looked
	resume()
	n.isOnBridge("in the end", before)
	n.says(b, "")
}

// A keeper that has looked once sets a link up only if it has made a port of it: a change whose answer is lost
// does not override an operator who has set one down.
func TestALinkThatIsSetDownIsLeftSoByALostChange(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := newNode(t)
	n.outside.Vsctl("add-port", "sw", "to-up0")
	_, stop := n.keep("", "up0")
	n.reaches("at first")
	stop()
	way := n.lossy()
	config := n.config("", "up0")
	config.RunDir = way.runDir
	b, _ := n.run(config)
	n.eventually("the keeper has looked", func() bool { return b.States() != nil && b.Problem() == "" })
	n.Exec("ip", "link", "set", "up0", "down")
	n.says(b, "uplink up0 is set down")
	n.Vsctl("set", "bridge", uplink.DefaultBridge, "fail_mode=secure")
	n.eventually("the change is done", func() bool {
		return way.asked.Load() && strings.Contains(n.Vsctl("get", "bridge", uplink.DefaultBridge, "fail_mode"), "standalone")
	})
	n.eventually("ovs-vswitchd has seen it", func() bool {
		seen, last, _ := strings.Cut(n.Vsctl("--", "get", "open_vswitch", ".", "cur_cfg", "--", "get", "open_vswitch", ".", "next_cfg"), "\n")
		return seen == strings.TrimSpace(last)
	})
	close(way.cut)
	n.eventually("the answer is lost", func() bool { return !strings.Contains(b.Problem(), "is set down") })
	close(way.open)
	n.says(b, "uplink up0 is set down") // it has looked
	if link := n.Exec("ip", "link", "show", "up0"); !strings.Contains(link, "state DOWN") {
		t.Errorf("it is set up: %s", link)
	}
}
