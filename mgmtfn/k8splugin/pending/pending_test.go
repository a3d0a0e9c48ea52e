package pending

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

func del(container string) cniwire.Request {
	return cniwire.Request{Command: cniwire.Del, ContainerID: container, IfName: "eth0", Stdin: []byte(`{}`)}
}

func TestADeletionWaitsUntilItIsDone(t *testing.T) {
	q := Open(filepath.Join(t.TempDir(), "state"))
	if list, err := q.List(); err != nil || list != nil {
		t.Errorf("an empty queue lists %v, %v", list, err)
	}
	for range 2 {
		if err := q.Put(del("a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Put(del("b")); err != nil {
		t.Fatal(err)
	}
	list, err := q.List()
	if err != nil || len(list) != 2 || list[0].ContainerID != "a" || list[1].ContainerID != "b" {
		t.Errorf("queue: %v, %v", list, err)
	}
	a := del("a").Attachment()
	if !q.Has(a) {
		t.Error("a does not wait")
	}
	for range 2 {
		if err := q.Done(a); err != nil {
			t.Fatal(err)
		}
	}
	if q.Has(a) {
		t.Error("a still waits")
	}
}

func TestANameThatIsNoAttachmentIsNotQueued(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []string{"", "../x", "a/b"} {
		if err := Open(dir).Put(del(bad)); err == nil {
			t.Errorf("container %q was queued", bad)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("written: %v, %v", entries, err)
	}
}

func TestFilesThatAreNoRequestsAreReportedOnce(t *testing.T) {
	dir := t.TempDir()
	q := Open(dir)
	if err := q.Put(del("good")); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"garbage.json":    "{",
		"other@eth0.json": `{"containerID": "good", "ifname": "eth0"}`,
		"notes.txt":       "hello",
	} {
		if err := os.WriteFile(filepath.Join(dir, "pending-del", name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := q.List()
	if len(list) != 1 || err == nil {
		t.Errorf("queue: %v, %v", list, err)
	}
	if list, err := q.List(); len(list) != 1 || err != nil {
		t.Errorf("second look: %v, %v", list, err)
	}
}
