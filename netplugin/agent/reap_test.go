package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/utils/netspace"
)

func TestGraceOfAnEndpointThatIsAlone(t *testing.T) {
	ids := []string{"a", "b", "c"}
	belongs := map[string]bool{"a": true}
	o := newOrphans(time.Minute)
	start := time.Unix(0, 0)
	judge := func(why string, after time.Duration, next time.Duration, due ...string) {
		t.Helper()
		gotDue, gotNext := o.judge(ids, func(id string) bool { return belongs[id] }, start.Add(after))
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

// podBehind makes a pod with one end of a link; end ends the pod, which takes the link along.
// Its namespace has no name: what others mount of a name would outlive it.
func podBehind(t *testing.T, link string) (end func()) {
	t.Helper()
	var ns netns.NsHandle
	err := netspace.In(nil, func() error {
		home, err := netns.Get()
		if err != nil {
			return err
		}
		defer home.Close()
		if ns, err = netns.New(); err != nil {
			return err
		}
		return netns.Set(home) // a thread that stays would keep the namespace
	})
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _ = ns.Close() })
	t.Cleanup(end)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: link}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(ns))}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(veth) }) // the kernel takes it away with the pod, by and by
	return end
}

// The store may have gone back while the checkpoint was lost: nobody on the node knows the pod.
func TestThePortOfAPodThatLivesStaysThoughNobodyKnowsIt(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	const pod, host, empty = "web.blue-lost", "web.blue-host", "web.blue-gone"
	link := fmt.Sprintf("vreap%d", os.Getpid())
	end := podBehind(t, link)
	ours := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: link + "h"}, PeerName: link + "p"} // as of an interface of the host
	if err := netlink.LinkAdd(ours); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(ours) })
	for id, name := range map[string]string{pod: link, host: ours.Name, empty: link + "e"} {
		driver.ports[id] = drivers.Port{EndpointID: id, HostLink: name}
	}
	logger, messages := logtest.NewNullLogger()
	startAgent(t, store.db, driver, soon, func(c *Config) { c.Log = logrus.NewEntry(logger) })
	expectPorts := func(why string, want ...string) {
		t.Helper()
		eventually(t, why, func() error {
			if got := portIDs(driver); !slices.Equal(got, want) {
				return fmt.Errorf("ports: %q, want %q", got, want)
			}
			return nil
		})
	}
	reports := func() (n int) {
		for _, e := range messages.AllEntries() {
			if e.Level == logrus.ErrorLevel && e.Data["endpoint"] == pod && e.Data["link"] == link && strings.Contains(e.Message, "a pod uses a port") {
				n++
			}
		}
		return n
	}
	expectPorts("what no pod is behind is removed", pod)
	looked := driver.portsAsked()
	eventually(t, "the reaper looks again, and again", func() error {
		if n := driver.portsAsked() - looked; n < 5 {
			return fmt.Errorf("%d looks", n)
		}
		return nil
	})
	expectPorts("the pod is alive", pod)
	if n := reports(); n != 1 {
		t.Errorf("%d reports of the port without an endpoint, want 1", n)
	}
	end()
	expectPorts("the pod is gone")
}
