package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// manyNetworks returns an apply that takes several transactions.
func manyNetworks(n int) []byte {
	var operations []string
	for i := range n {
		operations = append(operations, fmt.Sprintf(`{"op":"apply","type":"network","object":{"tenantName":"default","networkName":"n%04d",`+
			`"encap":"vxlan","subnet":"10.%d.%d.0/28"}}`, i, i>>8, i&255))
	}
	return []byte(`{"operations":[` + strings.Join(operations, ",") + `]}`)
}

// TestAnApplyInterruptedByKillIsWholeAfterTheRestart kills netmaster, store included, while it writes the changes
// of a large apply.
func TestAnApplyInterruptedByKillIsWholeAfterTheRestart(t *testing.T) {
	const networks = 2000
	p := cluster(t, 1)[0]
	leader(t, time.Minute, []*process{p})
	db, err := objdb.Open(objdb.Config{Endpoints: []string{p.store}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	following, stop := context.WithCancel(t.Context())
	decided := make(chan struct{})
	var once, working sync.WaitGroup
	var seen sync.Once
	once.Add(1)
	m := mirror.New(db, "/contiv.io/journal/", func(b mirror.Batch) {
		if b.Snapshot {
			once.Done() // later records are the apply's
			return
		}
		for _, e := range b.Events {
			if strings.HasSuffix(e.Key, "/committed") && e.Value != nil {
				seen.Do(func() { close(decided) })
			}
		}
	})
	working.Go(func() { _ = m.Run(following) })
	defer working.Wait()
	defer stop()
	once.Wait()
	working.Go(func() {
		resp, err := http.Post("http://"+p.addr+"/api/v1/apply", "application/json", bytes.NewReader(manyNetworks(networks)))
		if err == nil { // it was killed too late, which the journal shows below
			resp.Body.Close()
		}
	})
	select {
	case <-decided:
		p.kill()
	case <-time.After(time.Minute):
		t.Fatal("the apply decides nothing")
	}

	p.start()
	leader(t, 2*time.Minute, []*process{p}) // it finishes thousands of changes before it leads
	if !strings.Contains(p.log.String(), "finished a commit that was interrupted") {
		t.Fatal("the kill came too late to interrupt anything")
	}
	if strings.Contains(p.log.String(), "repaired:") {
		t.Error("there was something to repair")
	}
	served := func(path string) (answer string) { // a busy machine may be late
		testkit.Eventually(t, time.Minute, path+" is answered", func() bool {
			code, text := p.get(path)
			answer = text
			return code == http.StatusOK
		})
		return answer
	}
	var all []struct{ Key string }
	answer := served("/api/v1/networks/")
	if err := json.Unmarshal([]byte(answer), &all); err != nil {
		t.Fatal(err)
	}
	records, _, err := db.List(t.Context(), mastercfg.NetworkPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != networks || len(records) != networks {
		t.Errorf("%d networks, %d records, want %d", len(all), len(records), networks)
	}
	var global struct{ Oper struct{ NumNetworks int } }
	answer = served("/api/v1/inspect/globals/global/")
	if err := json.Unmarshal([]byte(answer), &global); err != nil || global.Oper.NumNetworks != networks {
		t.Errorf("%s: %v", answer, err)
	}
}
