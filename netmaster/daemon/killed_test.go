package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// A netmaster that the test kills is a process of its own: its connections break with their requests, a commit
// that has been sent may happen or not, and the store keeps its lease until it expires.

// orders is the variable that makes the test program such a netmaster.
const orders = "BE_NETMASTER"

// order is a command to the process, as JSON.
type order struct {
	Name, Addr, Dir, Store string
	TTL                    time.Duration
}

func (o order) socket() string { return filepath.Join(o.Dir, o.Name+".sock") }

func TestMain(m *testing.M) {
	if text := os.Getenv(orders); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(storetest.Main(m))
}

// obey serves until SIGTERM.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	cfg := config(o.Addr)
	cfg.Log = logrus.NewEntry(logrus.StandardLogger())
	cfg.LeaderTTL, cfg.API.Log = o.TTL, cfg.Log
	cfg.Store = objdb.Config{Endpoints: []string{o.Store}, Log: cfg.Log}
	cfg.Security = Security{Dir: filepath.Join(o.Dir, "pki"), Founding: mastercfg.SecurityEnforced, Name: o.Name, Socket: o.socket()}
	cfg.API.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
	d, err := New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return d.Run(ctx)
}

// mortal is a netmaster in a process of its own.
type mortal struct {
	*testing.T
	order
	cmd   *exec.Cmd
	said  testkit.Text
	ended <-chan struct{}

	killed bool
}

// bear starts one, which ends with the test at the latest, and waits until it answers.
func bear(t *testing.T, o order) *mortal {
	t.Helper()
	o.Addr, o.Store = testkit.FreeAddress(), storetest.Endpoint()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{T: t, order: o, cmd: exec.Command(os.Args[0])}
	m.cmd.Env = append(os.Environ(), orders+"="+string(text))
	m.cmd.Stdout, m.cmd.Stderr = &m.said, &m.said
	if m.ended, err = testkit.Start(m.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.end)
	testkit.Eventually(t, time.Minute, "netmaster answers", func() bool {
		code, _ := m.ask("/healthz")
		return code == http.StatusOK || !m.running()
	})
	return m
}

// ask returns its answer in plain HTTP, and the status; 0: there is no answer.
func (m *mortal) ask(path string) (code int, answer string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	resp, err := client.Get("http://" + m.Addr + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func (m *mortal) leads() bool {
	code, answer := m.ask("/readyz")
	return code == http.StatusOK && answer == "leader"
}

// running reports whether the process runs.
func (m *mortal) running() bool {
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// kill ends it as kill -9 does; it has run until then.
func (m *mortal) kill() {
	m.Helper()
	if !m.running() {
		m.Errorf("netmaster %s has ended by itself: %s", m.Name, m.cmd.ProcessState)
	}
	m.killed = true
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
}

// end ends it as SIGTERM does, unless it was killed.
func (m *mortal) end() {
	if !m.killed {
		_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-m.ended:
		case <-time.After(time.Minute):
			m.kill()
		}
		if !m.cmd.ProcessState.Success() {
			m.Errorf("netmaster %s ended with %s", m.Name, m.cmd.ProcessState)
		}
	}
	if said := m.said.String(); strings.Contains(said, "DATA RACE") {
		m.Errorf("netmaster %s: %s", m.Name, said)
	} else if m.Failed() {
		m.Logf("netmaster %s said:\n%s", m.Name, said)
	}
}
