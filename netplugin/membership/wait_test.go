package membership

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/utils/retry"
)

func TestANewTokenIsTriedAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ before, after func(path string) error }{
		"the first one": {func(string) error { return nil }, write},
		"one written over the last one": {write, func(path string) error {
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Second))
		}},
		"one moved to its place": {write, func(path string) error {
			if err := write(path + ".new"); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Member{cfg: Config{TokenFile: filepath.Join(t.TempDir(), "token")}}
			if err := c.before(m.cfg.TokenFile); err != nil {
				t.Fatal(err)
			}
			tried := m.tokenFile()
			if err := c.after(m.cfg.TokenFile); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			m.wait(t.Context(), retry.NewPacer(time.Hour, time.Hour), tried)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("waited %s", took)
			}
		})
	}
}

func TestATokenThatWasTriedWaitsForItsTurn(t *testing.T) {
	m := &Member{cfg: Config{TokenFile: filepath.Join(t.TempDir(), "token")}}
	if err := write(m.cfg.TokenFile); err != nil {
		t.Fatal(err)
	}
	const longest = tokenCheck * 24 / 10
	began := time.Now()
	m.wait(t.Context(), retry.NewPacer(longest, longest), m.tokenFile())
	if took := time.Since(began); took < longest/2 { // the least that a pacer waits
		t.Errorf("waited %s", took)
	}
}

func write(path string) error { return os.WriteFile(path, []byte("token"), 0o600) }
