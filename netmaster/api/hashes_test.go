package api

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// hashes is a hashing process that records its requests and finds each password wrong.
type hashes struct {
	*accounts.Workers
	told *testkit.Text // log of the process
	path string
}

const noting = `while read -r task; do printf '%s\n' "$task" >> "$0"; echo '{"Right":false}'; done`

func newHashes(t *testing.T) hashes {
	log, told := testkit.Recorded()
	path := filepath.Join(t.TempDir(), "tasks")
	h := hashes{accounts.NewWorkers(log, "sh", "-c", noting, path), told, path}
	t.Cleanup(h.Close)
	return h
}

// asked returns the forms and costs of the hashes that passwords were compared with so far.
func (h hashes) asked(t *testing.T) (costs []string) {
	t.Helper()
	text, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var task struct{ Against string }
		if err := json.Unmarshal([]byte(line), &task); err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(task.Against, "$") // the last two are salt and digest
		costs = append(costs, strings.Join(parts[:max(0, len(parts)-2)], "$"))
	}
	return costs
}

// The time of a failed login does not reveal whether the user exists: each takes one hash of the same cost.
func TestUnknownUsersCostTheSameHash(t *testing.T) {
	for try := 1; ; try++ {
		h := newHashes(t)
		loginsTakeOneHash(t, h)
		late := strings.Contains(h.told.String(), "no result within") // on a machine that is busy; then others than these hash for a while
		if !late || try == 3 {
			if late {
				t.Error(h.told.String())
			}
			return
		}
	}
}

func loginsTakeOneHash(t *testing.T, h hashes) {
	b, _ := proxied(t, func(c *Config) { c.HashWorkers = h.Workers })
	hash, err := accounts.NewHasher(accounts.Cost{Memory: 8, Time: 1, Threads: 1}, nil).Hash(t.Context(), goodPassword, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.plan(func(tx *ledger.Tx) error {
		for _, user := range []mastercfg.LocalUser{{Name: "ann", Password: hash}, {Name: "off", Password: hash, Disabled: true}} {
			if err := access.CreateUser(tx, user, time.Now()); err != nil {
				return err
			}
		}
		return nil
	})
	want := []string{}
	for _, name := range []string{"ann", "none", "off", "*)(uid=*", "../obj", "none"} {
		b.want("", "POST", logins.AuthPath+"/login/", string(must(json.Marshal(map[string]string{"username": name, "password": "wrong wrong wrong"}))), 401, "Invalid username/password")
		want = append(want, "$argon2id$v=19$m=8,t=1,p=1")
		if got := h.asked(t); h.told.String() == "" && strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s is the login number %d, and the hashes are of %q", name, len(want), got)
			return
		}
	}
}
