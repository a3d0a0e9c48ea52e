package credentials

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestEveryServerHasItsToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.json")
	var s Store
	s.Set("https://a", "one")
	s.Set("https://b", "two")
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil || s.For("https://a") != "one" || s.For("https://b") != "two" || s.For("https://c") != "" {
		t.Errorf("loaded %+v, %v", s, err)
	}
	s.Set("https://a", "")
	if s.For("https://a") != "" {
		t.Error("a forgotten token is still known")
	}
	s.Trust("https://b", "PEM\n")
	s.Trust("https://c", "PEM of c\n")
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}
	if s, err = Load(path); err != nil || s.For("https://b") != "two" || !maps.Equal(s.Authorities("https://a", "https://b"), map[string]string{"https://b": "PEM\n"}) {
		t.Errorf("loaded %+v, %v", s, err)
	}
	if s.Set("https://b", ""); s.Authorities("https://b")["https://b"] == "" {
		t.Error("who forgets a token does not know the server any more")
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", name, info.Mode(), err, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestTheFileOfTheOriginalCountsForEveryServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"token": "old"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	s.Set("https://a", "new")
	if err != nil || s.For("https://a") != "new" || s.For("https://b") != "old" {
		t.Errorf("loaded %+v, %v", s, err)
	}
}

func TestWhereTheFileIs(t *testing.T) {
	t.Setenv("HOME", "/nowhere")
	if got := File(); got != "/nowhere/.netctl/config.json" {
		t.Error(got)
	}
	t.Setenv("NETCTL_CONFIG", "/else/where")
	if got := File(); got != "/else/where" {
		t.Error(got)
	}
	t.Setenv("NETCTL_CONFIG", "")
	t.Setenv("HOME", "")
	if got := File(); got != "" {
		t.Errorf("without a home: %s", got)
	}
	if s, err := Load(""); err != nil || s.For("x") != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := (Store{}).Save(""); err == nil {
		t.Error("saved nowhere")
	}
}

func TestADamagedFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || err.Error() != "credentials "+path+": unexpected end of JSON input" {
		t.Error(err)
	}
}
