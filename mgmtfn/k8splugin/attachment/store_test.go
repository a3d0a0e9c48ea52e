package attachment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/test/testkit"
)

func open(t *testing.T, dir string) (*Store, []error) {
	t.Helper()
	s, problems, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, problems
}

func sample(container string) Record {
	return Record{
		ContainerID: container, IfName: "eth0", Tenant: "blue", NetworkName: "web", Endpoint: container,
		Link: podlink.Spec{Name: "eth0", MAC: "02:02:0a:01:00:02"}, Result: []byte(`{"cniVersion":"1.1.0"}`),
	}
}

func TestACheckpointSurvivesTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cni")
	s, _ := open(t, dir)
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	r := sample("a")
	for _, step := range []error{s.Begin(&r, now), s.Sync(&r), s.Finish(&r, now), s.Delete(&r, now)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	again, problems := open(t, dir)
	if problems != nil {
		t.Fatal(problems)
	}
	got, ok := again.Get(r.Attachment())
	// The file is indented for the reader, the result in it, too.
	got.Result = []byte(strings.Join(strings.Fields(string(got.Result)), ""))
	if diff := cmp.Diff(r, got, cmp.AllowUnexported(podlink.Spec{})); !ok || diff != "" {
		t.Errorf("after a restart: %v %s", ok, diff)
	}
	if r.EndpointID() != "web.blue-a" {
		t.Errorf("endpoint %s", r.EndpointID())
	}
	if err := again.Remove(r.Attachment()); err != nil {
		t.Fatal(err)
	}
	if err := again.Remove(r.Attachment()); err != nil {
		t.Errorf("removing it twice: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestCorruptCheckpointsAreReportedOnceAndSkipped(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	good := sample("good")
	if err := s.Finish(&good, time.Now()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "good@eth0.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"empty@eth0.json":   "",
		"half@eth0.json":    string(content[:len(content)/2]),
		"other@eth0.json":   string(content), // is about good
		"state@eth0.json":   strings.ReplaceAll(strings.ReplaceAll(string(content), `"good"`, `"state"`), `"ready"`, `"odd"`),
		"nowhere@eth0.json": `{"containerID": "nowhere", "ifname": "eth0", "state": "ready"}`,
		".tmp-123":          "half",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, problems := open(t, dir)
	if len(problems) != 5 {
		t.Errorf("problems: %v", problems)
	}
	if all := again.Select(func(*Record) bool { return true }); len(all) != 1 || all[0].ContainerID != "good" {
		t.Errorf("records: %v", all)
	}
	if _, err := os.Stat(filepath.Join(dir, ".tmp-123")); !os.IsNotExist(err) {
		t.Errorf("what an interrupted writer left: %v", err)
	}
	again, problems = open(t, dir)
	if problems != nil {
		t.Errorf("reported again: %v", problems)
	}
	if aside, err := again.SetAside(); len(aside) != 5 || aside[0] != filepath.Join(dir, "empty@eth0.json.corrupt") || err != nil {
		t.Errorf("set aside are %v, %v", aside, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"containerID": "a", "ifname": "eth0", "state": "ready", "tenant": "t", "network": "n", "endpoint": "e", "link": {"addresses": ["10.0.0.1/8"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err == nil && (r.Attachment().Validate() != nil || r.Endpoint == "") {
			t.Errorf("accepted %+v", r)
		}
	})
}

func TestThatNoCheckpointCanBeWrittenIsAProblemUntilOneCan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cni")
	s, _ := open(t, dir)
	r := sample("a")
	problem := func(want string) {
		t.Helper()
		if err := s.Problem(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("problem %v, want %q", err, want)
		}
	}
	if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	problem("") // nothing is written to find out
	if err := s.Begin(&r, time.Now()); err == nil {
		t.Fatal("a checkpoint was written to what is no directory")
	}
	problem("not a directory")
	if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
		t.Fatal(err)
	}
	problem("") // though nothing was attached since
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
	if err := s.Begin(&r, time.Now()); err != nil {
		t.Fatal(err)
	}
	problem("")
}

func TestADirectoryThatIsRemovedIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cni")
	s, _ := open(t, dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r := sample("a")
	if err := s.Begin(&r, time.Now()); err != nil {
		t.Fatal(err)
	}
	s, problems := open(t, dir)
	if have, ok := s.Get(r.Attachment()); !ok || have.State != Adding || problems != nil {
		t.Errorf("%+v, %v, %v", have, ok, problems)
	}
}

// On a full disk an empty file can still be made.
func TestThatTheDiskIsFullIsAProblem(t *testing.T) {
	testkit.NeedsMachine(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, _ := open(t, dir)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	r := sample("a")
	if err := s.Begin(&r, time.Now()); err == nil {
		t.Fatal("a checkpoint was written to a full disk")
	}
	if err := s.Problem(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("problem %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.Problem(); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
}
