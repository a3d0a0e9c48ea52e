package dpkg

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestVersionsAreInTheOrderOfDpkg(t *testing.T) {
	ascending := []string{"2.15.0+ds1-2+deb11u4", "2.15.0+ds1-2+deb11u5", "2.15.0+ds1-2+deb11u10", "3.1.0~git20230108.006e1c6-1", "3.1.0-1", "3.1.0-2~bpo11+1", "3.1.0-2",
		"3.1.0-2+deb12u1", "3.1.0-2.1", "3.1.0-10", "3.1.0a-1", "3.1.0+ds-1", "3.1.1-1", "3.10.0-1", "1:2.0-1"}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := Compare(a, b); got != max(-1, min(1, i-j)) {
				t.Errorf("%s against %s: %d", a, b, got)
			}
		}
	}
	if !slices.IsSortedFunc(ascending, Compare) || Compare("3.1.0-02", "3.1.0-2") != 0 {
		t.Error("they are not in order")
	}
	for version, want := range map[string]string{"1:3.1.0-2+deb12u1": "3.1.0", "3.1.0": "3.1.0", "3.1.0-0ubuntu1-2": "3.1.0-0ubuntu1"} {
		if got := Upstream(version); got != want {
			t.Errorf("%s: %s", version, got)
		}
	}
}

func TestTheDatabaseSaysWhatIsInstalled(t *testing.T) {
	const text = `Package: openvswitch-common
Status: install ok installed
Version: 1-1

Package: openvswitch-switch
Status: install ok installed
Description: a switch
 Package: other
Version: 3.1.0-2+deb12u1

Package: removed
Status: deinstall ok config-files
Version: 1.0-1

Package: last
Version: 2-1
Status: hold ok installed
`
	path := filepath.Join(t.TempDir(), "status")
	for _, end := range []string{"", "\n"} {
		if err := os.WriteFile(path, []byte(text+end), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"openvswitch-switch": "3.1.0-2+deb12u1", "openvswitch": "", "removed": "", "other": "", "last": "2-1"} {
			if got, err := Installed(path, name); err != nil || got != want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	if got, err := Installed(filepath.Join(t.TempDir(), "none"), "last"); err != nil || got != "" {
		t.Errorf("without dpkg: %q, %v", got, err)
	}
	if _, err := Installed(t.TempDir(), "last"); err == nil {
		t.Error("a directory was read")
	}
}

func TestThePackageIsAsOldAsItsFilesInPlace(t *testing.T) {
	dir := t.TempDir()
	database, when := filepath.Join(dir, "status"), time.Unix(1700000000, 0)
	if got, err := Unpacked(database, "a"); err != nil || !got.IsZero() {
		t.Errorf("without dpkg: %v, %v", got, err)
	}
	list := filepath.Join(dir, "info", "a.list")
	if err := errors.Join(os.Mkdir(filepath.Dir(list), 0o700), os.WriteFile(list, nil, 0o600), os.Chtimes(list, when, when)); err != nil {
		t.Fatal(err)
	}
	if got, err := Unpacked(database, "a"); err != nil || !got.Equal(when) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Unpacked(database, "b"); err != nil || !got.IsZero() {
		t.Errorf("one that is not installed: %v, %v", got, err)
	}
	if _, err := Unpacked(filepath.Join(list, "status"), "a"); err == nil {
		t.Error("a file was taken for a directory")
	}
}
