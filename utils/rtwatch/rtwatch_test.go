package rtwatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/rtwatch"
)

func TestMain(m *testing.M) { os.Exit(fakenode.Isolate(m)) }

// addresses adds so many addresses to an interface.
func addresses(t *testing.T, net, count int) {
	t.Helper()
	var script strings.Builder
	for i := range count {
		fmt.Fprintf(&script, "address replace 10.%d.%d.%d/32 dev lo\n", net, i>>8, i&255)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(script.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip: %v: %s", err, out)
	}
}

// A slow watcher, for which the kernel drops messages, gets later changes.
func TestAChangeAfterAnOverflowIsTold(t *testing.T) {
	testkit.NeedsMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, goOn := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- rtwatch.Watch(ctx, logrus.NewEntry(logrus.New()), netns.None(), func() {
			if calls.Add(1) == 1 {
				close(begun)
				<-goOn
			}
		}, unix.RTNLGRP_IPV4_IFADDR)
	}()
	<-begun
	const flood = 900
	addresses(t, 1, flood)
	close(goOn)
	testkit.Eventually(t, patience, "an overflow ends the first subscription", func() bool { return calls.Load() > 1 })
	addresses(t, 2, 1)
	settled := calls.Load()
	testkit.Eventually(t, patience, "what is waiting is told", func() bool {
		before := settled
		settled = calls.Load()
		return settled == before
	})
	if settled >= flood {
		t.Fatalf("%d changes were told: nothing was lost, and nothing is shown", settled)
	}
	addresses(t, 3, 1)
	testkit.Eventually(t, patience, "a change after that is told", func() bool { return calls.Load() > settled })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// A kernel that sends no messages, now or ever, does not end the watch: its users also poll.
func TestAKernelThatDoesNotTellIsAskedAgain(t *testing.T) {
	testkit.NeedsMachine(t)
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	const later = 700 // a descriptor that is open later
	log, logged := logtest.NewNullLogger()
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- rtwatch.Watch(ctx, logrus.NewEntry(log), netns.NsHandle(later), func() { calls.Add(1) }, unix.RTNLGRP_IPV4_IFADDR)
	}()
	testkit.Eventually(t, patience, "a refusal is in the log", func() bool { return len(logged.AllEntries()) > 0 })
	if calls.Load() > 0 {
		t.Error("changes are told although nobody listens")
	}
	if err := unix.Dup2(int(here), later); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(later)
	testkit.Eventually(t, patience, "it is asked again", func() bool { return calls.Load() == 1 })
	addresses(t, 4, 1)
	testkit.Eventually(t, patience, "a change is told", func() bool { return calls.Load() > 1 })
	if all := logged.AllEntries(); len(all) != 1 {
		t.Errorf("%d lines in the log", len(all))
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second
