package netctl

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/test/testkit"
)

func TestAWatchShowsWhatOthersDo(t *testing.T) {
	url := startStore(t).startMaster(t)
	do := func(line string) {
		t.Helper()
		if got := run(t, url, line); got.code != 0 {
			t.Fatalf("netctl %s: %v", line, got)
		}
	}
	do("tenant create blue")
	do("netprofile create old -t blue")
	ctx, interrupt := context.WithCancel(t.Context())
	var out testkit.Text
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"netctl", "--netmaster", url, "get", "netprofiles", "-t", "blue", "--watch", "-o", "csv", "--no-headers"},
			nil, &out, &out)
	}()
	want := ""
	for _, step := range []struct{ line, event string }{
		{"", "ADDED,old,blue,,0,0"},
		{"netprofile create slow -t blue -d 7", "ADDED,slow,blue,,7,0"},
		{"netprofile create slow -t default", ""},
		{"netprofile create slow -t blue -d 8", "MODIFIED,slow,blue,,8,0"},
		{"netprofile rm old -t blue", "DELETED,old,blue,,0,0"},
	} {
		if step.line != "" {
			do(step.line)
		}
		if step.event != "" {
			want += step.event + "\n"
		}
		testkit.Eventually(t, 20*time.Second, step.event, func() bool { return len(out.String()) >= len(want) })
	}
	interrupt()
	if exit := <-code; exit != 130 {
		t.Errorf("exit code %d", exit)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// Each editor changes a field of its own; none of them loses a change to another.
func TestEditorsDoNotOverwriteEachOther(t *testing.T) {
	url := startStore(t).startMaster(t)
	for _, line := range []string{"network create web -s 10.7.0.0/24", "group create web front", "netprofile create slow",
		"policy create p", "external-contracts create ext -c -a uni/x"} {
		if got := run(t, url, line); got.code != 0 {
			t.Fatalf("netctl %s: %v", line, got)
		}
	}
	for round := range 5 {
		var editors sync.WaitGroup
		for _, flag := range []string{"-p p", "-n slow", "-e ext"} {
			editors.Go(func() {
				if got := run(t, url, "group update front "+flag); got.code != 0 {
					t.Errorf("group update %s: %v", flag, got)
				}
			})
		}
		editors.Wait()
		got := run(t, url, "get group front -o json").stdout
		for _, field := range []string{`"netProfile": "slow"`, `"p"`, `"ext"`} {
			if !strings.Contains(got, field) {
				t.Errorf("round %d: %s is lost: %s", round, field, got)
			}
		}
		if reset := run(t, url, "group create web front"); reset.code != 0 {
			t.Fatal(reset)
		}
	}
}

// Repeating a script removes no limit of a tenant.
func TestATenantThatIsCreatedAgainStaysAsItIs(t *testing.T) {
	url := startStore(t).startMaster(t)
	if got := run(t, url, "tenant create blue --max-endpoints 7 --namespaces shop"); got.code != 0 {
		t.Fatal(got)
	}
	for _, line := range []string{"tenant create blue", "tenant create blue --max-endpoints 8"} {
		if got := run(t, url, line); got.code == 0 || !strings.Contains(got.stderr, "tenant blue exists already") {
			t.Errorf("netctl %s: %+v", line, got)
		}
	}
	if got := run(t, url, "tenant inspect blue"); !strings.Contains(got.stdout, `"maxEndpoints": 7`) || !strings.Contains(got.stdout, `"namespaces": "shop"`) {
		t.Errorf("%+v", got)
	}
}
