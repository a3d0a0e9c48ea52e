package cniinstall

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/test/testkit"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestProgramsAreReplacedAndALoopbackThatIsThereIsNot(t *testing.T) {
	source, target := t.TempDir(), filepath.Join(t.TempDir(), "cni", "bin")
	for _, version := range []string{"1", "2"} {
		write(t, filepath.Join(source, "contivk8s"), "contivk8s "+version)
		write(t, filepath.Join(source, "loopback"), "loopback "+version)
		if err := Programs(source, target); err != nil {
			t.Fatal(err)
		}
		if got := read(t, filepath.Join(target, "contivk8s")); got != "contivk8s "+version {
			t.Errorf("contivk8s is %q after version %s", got, version)
		}
		if got := read(t, filepath.Join(target, "loopback")); got != "loopback 1" {
			t.Errorf("loopback is %q after version %s", got, version)
		}
	}
	for _, name := range Plugins() {
		info, err := os.Stat(filepath.Join(target, name))
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	if names, err := os.ReadDir(target); err != nil || len(names) != 2 {
		t.Errorf("%v, %v: want the two programs alone", names, err)
	}
}

func TestAProgramThatIsAsItShouldBeIsNotTouched(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	for _, name := range Plugins() {
		write(t, filepath.Join(source, name), name)
	}
	var times [2]time.Time
	for i := range times {
		if err := Programs(source, target); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(target, "contivk8s"))
		if err != nil {
			t.Fatal(err)
		}
		times[i] = info.ModTime()
	}
	if !times[0].Equal(times[1]) {
		t.Error("written again")
	}
}

func TestTheConfigurationIsOneThatRuntimesOfBothAgesTake(t *testing.T) {
	dir := t.TempDir()
	log, _ := test.NewNullLogger()
	if problem := look(dir, logrus.NewEntry(log)); problem != "" {
		t.Fatal(problem)
	}
	list, err := libcni.ConfListFromFile(filepath.Join(dir, ConfName))
	if err != nil {
		t.Fatal(err)
	}
	if list.CNIVersion != "1.1.0" || !strings.Contains(read(t, filepath.Join(dir, ConfName)), `"cniVersion": "1.0.0"`) {
		t.Errorf("version %s", list.CNIVersion)
	}
	for _, capability := range []string{"portMappings", "bandwidth", "io.kubernetes.cri.pod-annotations"} {
		if !list.Plugins[0].Network.Capabilities[capability] {
			t.Errorf("capability %s is not declared", capability)
		}
	}
}

// Who writes the file by hand has it from the page.
func TestThePageHasTheConfigurationThatIsWritten(t *testing.T) {
	page := read(t, filepath.Join("..", "..", "..", "docs", "kubernetes.md"))
	at := strings.Index(page, `{"cniVersion"`)
	if at < 0 {
		t.Fatal("the page has no configuration")
	}
	var byHand, written any
	if err := errors.Join(json.NewDecoder(strings.NewReader(page[at:])).Decode(&byHand), json.Unmarshal([]byte(Conf), &written)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(byHand, written) {
		t.Errorf("the page has %v, netplugin writes %v", byHand, written)
	}
}

func TestTheConfigurationIsWrittenOnceAndAgainWhenItIsGone(t *testing.T) {
	dir := t.TempDir()
	log, hook := test.NewNullLogger()
	entry := logrus.NewEntry(log)
	written := func() (n int) {
		for _, e := range hook.AllEntries() {
			if strings.Contains(e.Message, "written") {
				n++
			}
		}
		return n
	}
	for range 3 {
		look(dir, entry)
	}
	if written() != 1 {
		t.Errorf("written %d times, want once", written())
	}
	if err := os.Remove(filepath.Join(dir, ConfName)); err != nil {
		t.Fatal(err)
	}
	look(dir, entry)
	write(t, filepath.Join(dir, ConfName), "{") // somebody's mistake
	look(dir, entry)
	if got := read(t, filepath.Join(dir, ConfName)); got != Conf || written() != 3 {
		t.Errorf("written %d times, %q", written(), got)
	}
}

func TestAConfigurationThatRuntimesPreferIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	for name, preferred := range map[string]bool{"00-other.conflist": true, "05-contiv.conf": true, "00-other.bak": false, "10-other.conf": false} {
		write(t, filepath.Join(dir, name), "{}")
		log, hook := test.NewNullLogger()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		keeper := &Keeper{Dir: dir, Log: logrus.NewEntry(log)}
		go func() { ended <- keeper.Run(ctx) }()
		testkit.Eventually(t, time.Minute, "the configuration is there", func() bool {
			_, err := os.Stat(filepath.Join(dir, ConfName))
			return !errors.Is(err, fs.ErrNotExist)
		})
		stop()
		<-ended
		warned := slices.ContainsFunc(hook.AllEntries(), func(e *logrus.Entry) bool {
			return e.Level == logrus.WarnLevel && strings.Contains(e.Message, name)
		})
		if told := strings.Contains(keeper.Problem(), name); warned != preferred || told != preferred {
			t.Errorf("%s: warned %v, told %v, want %v", name, warned, told, preferred)
		}
		for _, left := range []string{name, ConfName} {
			if err := os.Remove(filepath.Join(dir, left)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
