package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/journals"
	"github.com/contiv/netplugin/test/testkit"
)

// A netmaster that finds a damaged journal when it becomes leader sets it aside, logs that, and serves.
func TestANetmasterServesWhateverJournalItFinds(t *testing.T) {
	findJournals(t, "a missing part", "junk as mark", "keys of others")
}

func TestLongANetmasterServesWhateverOfAllJournalsItFinds(t *testing.T) {
	testkit.TakesLong(t)
	findJournals(t, slices.Sorted(maps.Keys(journals.Damaged()))...)
}

// findJournals has a netmaster begin to lead with one damaged journal after the other.
func findJournals(t *testing.T, names ...string) {
	t.Helper()
	shapes := journals.Damaged()
	p := cluster(t, 1)[0]
	leader(t, time.Minute, []*process{p})
	db, err := objdb.Open(objdb.Config{Endpoints: []string{p.store}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	journal := "/contiv.io/journal/" + mastercfg.LeaderLock + "/"
	aside := "/contiv.io/journal-damaged/" + mastercfg.LeaderLock + "/"
	moved := 0
	for i, name := range names {
		var keys objdb.Txn
		for key, value := range shapes[name] {
			keys.Puts = append(keys.Puts, objdb.KV{Key: journal + key, Value: []byte(value)})
		}
		if _, _, err := db.Txn(t.Context(), keys); err != nil {
			t.Fatal(err)
		}
		moved += len(keys.Puts)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		p.start()
		leader(t, time.Minute, []*process{p})
		if said := strings.Count(p.log.String(), "a journal cannot be read"); said != i+1 {
			t.Errorf("%s: said %d times, want %d", name, said, i+1)
		}
		left, _, err := db.List(t.Context(), journal)
		if err != nil || len(left) != 0 {
			t.Errorf("%s: %d keys of the journal are left, %v", name, len(left), err)
		}
		if there, _, err := db.List(t.Context(), aside); err != nil || len(there) != moved {
			t.Errorf("%s: %d keys are set aside, want %d; %v", name, len(there), moved, err)
		}
		tenant := fmt.Sprint("t", i)
		if code, answer := p.post("/api/v1/tenants/"+tenant+"/", `{"tenantName":"`+tenant+`"}`); code != http.StatusOK {
			t.Errorf("%s: a tenant is refused: %d %s", name, code, answer)
		}
	}
}
