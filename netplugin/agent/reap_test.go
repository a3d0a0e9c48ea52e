package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers"
)

func TestGraceOfAnEndpointThatIsAlone(t *testing.T) {
	ids := []string{"a", "b", "c"}
	belongs := map[string]bool{"a": true}
	o := newOrphans(time.Minute)
	start := time.Unix(0, 0)
	judge := func(why string, after time.Duration, next time.Duration, due ...string) {
		t.Helper()
		gotDue, gotNext := o.expired(ids, func(id string) bool { return belongs[id] }, start.Add(after))
		if !slices.Equal(gotDue, due) || gotNext != next {
			t.Errorf("%s: due %v next %s, want %v %s", why, gotDue, gotNext, due, next)
		}
	}
	judge("seen first", 0, time.Minute)
	judge("half the grace", 30*time.Second, 30*time.Second)
	belongs["b"] = true
	judge("b belongs to something now", 40*time.Second, 20*time.Second)
	belongs["b"] = false
	judge("c is over, b starts anew", 60*time.Second, time.Minute, "c")
	belongs["c"] = true
	judge("c belongs to something", 70*time.Second, 50*time.Second)
}

// expectPorts waits until exactly these endpoints have ports.
func expectPorts(t *testing.T, driver *recorder, why string, want ...string) {
	t.Helper()
	eventually(t, why, func() error {
		if got := portIDs(driver); !slices.Equal(got, want) {
			return fmt.Errorf("ports: %q, want %q", got, want)
		}
		return nil
	})
}

// awaitLooks waits until the reaper has run a few times.
func awaitLooks(t *testing.T, driver *recorder) {
	t.Helper()
	looked := driver.portsAsked()
	eventually(t, "the reaper looks again, and again", func() error {
		if n := driver.portsAsked() - looked; n < 10 {
			return fmt.Errorf("%d looks", n)
		}
		return nil
	})
}

// The store may have been restored while the checkpoint was lost: then the node has no record of the pod.
func TestThePortOfAPodThatLivesStaysThoughNobodyKnowsIt(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	const pod, gone = "web.blue-lost", "web.blue-gone"
	for _, id := range []string{pod, gone} {
		driver.ports[id] = drivers.Port{EndpointID: id, HostLink: "vvport" + id}
	}
	driver.use(pod, true)
	logger, messages := logtest.NewNullLogger()
	// Between two checks for unknown ports, the port left to a pod is checked.
	startAgent(t, store.db, driver, func(c *Config) {
		c.ReapInterval, c.ReapGrace, c.Log = time.Hour, 20*time.Millisecond, logrus.NewEntry(logger)
	})
	reports := func() (n int) {
		for _, e := range messages.AllEntries() {
			if e.Level == logrus.ErrorLevel && e.Data["endpoint"] == pod && e.Data["link"] == driver.ports[pod].HostLink && strings.Contains(e.Message, "a pod uses a port") {
				n++
			}
		}
		return n
	}
	expectPorts(t, driver, "what no pod is behind is removed", pod)
	awaitLooks(t, driver)
	expectPorts(t, driver, "the pod is alive", pod)
	if n := reports(); n != 1 {
		t.Errorf("%d reports of the port without an endpoint, want 1", n)
	}
	driver.use(pod, false)
	expectPorts(t, driver, "the pod is gone")
}

// A port that was found alone may belong to something when it comes to its removal: an ADD has just made it, or its endpoint has come.
func TestAPortThatBelongsToSomethingByNowStays(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	const stored, claimed, alone = "web.blue-1", "web.blue-new", "web.blue-gone"
	agent := startAgent(t, store.db, driver, func(c *Config) { c.ReapInterval, c.ReapGrace = time.Hour, time.Hour })
	agent.awaitReady(t)
	agent.mu.Lock()
	agent.held.claimed[claimed] = struct{}{}
	agent.mu.Unlock()
	for _, id := range []string{stored, claimed, alone} {
		port := drivers.Port{EndpointID: id, HostLink: "vvport" + id}
		driver.ports[id] = port
		newReaper(agent.Agent).remove(t.Context(), port)
	}
	expectPorts(t, driver, "the one that is alone is removed", stored, claimed)
}
