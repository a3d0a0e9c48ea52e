package accounts

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/testkit"
)

// working is the argument by which this program is a worker.
const working = "hash"

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] == working {
		GiveWay()
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// crew returns a hasher with workers, and their log.
func crew(t *testing.T, command ...string) (*Hasher, *Workers, *logrustest.Hook) {
	log, said := logrustest.NewNullLogger()
	w := NewWorkers(logrus.NewEntry(log), command...)
	t.Cleanup(w.Close)
	return NewHasher(cheap, w), w, said
}

// children are the processes that this one has started.
func children(t *testing.T) (pids []int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		list, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children") // a thread may end
		for field := range strings.FieldsSeq(string(list)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func noneLeft(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, "no process is left", func() bool { return len(children(t)) == 0 })
}

// verified sees that a hash is one of the password and of no other.
func verified(t *testing.T, h *Hasher) {
	t.Helper()
	hash, err := h.Hash(t.Context(), right, 0)
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{right: true, "wrong": false} {
		if v, err := h.Verify(t.Context(), hash, password, 0); err != nil || v.Right != want {
			t.Errorf("%q: %+v, %v", password, v, err)
		}
	}
}

func TestAWorkerHashesWhileNobodyElseWantsTheProcessor(t *testing.T) {
	h, w, said := crew(t, "/proc/self/exe", working)
	w.patience = time.Minute // others may want the processor all the time
	verified(t, h)
	pids := children(t)
	if len(pids) != 1 {
		t.Fatalf("there are the processes %v, want one", pids)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	idle := 0
	for _, thread := range threads {
		tid, _ := strconv.Atoi(thread.Name()) // the kernel's
		if attr, err := unix.SchedGetAttr(tid, 0); err == nil && attr.Policy == unix.SCHED_IDLE {
			idle++
		}
	}
	if idle < len(threads) { // the hash is worked on by any of them
		t.Errorf("%d of its %d threads have the policy SCHED_IDLE", idle, len(threads))
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[0]))
	if err != nil || len(environment) > 0 {
		t.Errorf("its environment is %q, %v", environment, err)
	}

	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	verified(t, h) // by this process, and then by another worker
	if len(said.AllEntries()) != 1 {
		t.Errorf("the log is told %v, want that one has failed", said.AllEntries())
	}
	if pids := children(t); len(pids) != 1 {
		t.Errorf("after one that was killed there are %v", pids)
	}
	w.Close()
	if pids := children(t); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	verified(t, h)
}

func TestAWorkerWithNothingToDoEnds(t *testing.T) {
	h, w, _ := crew(t, "/proc/self/exe", working)
	w.patience = time.Minute
	w.keptFor = time.Millisecond
	verified(t, h)
	noneLeft(t)
	verified(t, h)
}

// Whatever becomes of workers, there is an answer.
func TestWorkersThatFail(t *testing.T) {
	for name, command := range map[string][]string{
		"there is no such program": {"/no/such/program"},
		"it ends":                  {"/bin/true"},
		"it says something else":   {"/bin/echo", "hello"},
		"it does not answer":       {"/bin/sleep", "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			h, w, said := crew(t, command...)
			began := time.Now()
			hash, err := h.Hash(t.Context(), right, 0)
			if err != nil || time.Since(began) > 5*time.Second {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
			if against, err := parse(hash); err != nil || !against.matches(right) {
				t.Errorf("the hash is not of the password: %v", err)
			}
			if len(said.AllEntries()) != 1 {
				t.Errorf("the log is told %v", said.AllEntries())
			}
			w.Close()
			noneLeft(t)
		})
	}
}
