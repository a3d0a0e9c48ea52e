package api

import (
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// aThousand returns operations that create 500 networks and 500 rules, and those that remove them.
func aThousand(b *bench) (create, remove []string) {
	b.Helper()
	b.applying("", apply("policy", `{"tenantName":"blue","policyName":"guard"}`),
		apply("network", `{"tenantName":"blue","networkName":"net","encap":"vxlan","subnet":"10.32.0.0/16"}`),
		apply("endpointGroup", `{"tenantName":"blue","groupName":"front","networkName":"net","policies":["guard"]}`),
		apply("endpointGroup", `{"tenantName":"blue","groupName":"back","networkName":"net"}`))
	for i := range 500 {
		create = append(create,
			apply("network", fmt.Sprintf(`{"tenantName":"blue","networkName":"n%05d","encap":"vxlan","subnet":"10.%d.%d.0/24"}`, i, 64+i>>8, i&255)),
			apply("rule", fmt.Sprintf(`{"tenantName":"blue","policyName":"guard","ruleId":"r%05d","direction":"in","action":"allow",`+
				`"protocol":"tcp","port":%d,"priority":1,"fromEndpointGroup":"back"}`, i, 1+i)))
		remove = append(remove, drop("network", fmt.Sprintf("blue:n%05d", i)), drop("rule", fmt.Sprintf("blue:guard:r%05d", i)))
	}
	return create, remove
}

// present returns the number of keys and the revision of the store.
func (b *bench) present() (keys int, revision int64) {
	b.Helper()
	all, revision, err := b.db.List(b.Context(), mastercfg.Root)
	if err != nil {
		b.Fatal(err)
	}
	return len(all), revision
}

// A journal is written to disk twice, so a thousand objects do without one.
func TestAThousandObjectsAreOneTransaction(t *testing.T) {
	b := ready(t)
	create, remove := aThousand(b)
	for _, operations := range [][]string{create, remove} {
		_, before := b.present()
		b.applying("", operations...)
		_, after := b.present()
		if made := storetest.Transactions(t, before, after); len(made) != 1 {
			t.Errorf("%d transactions:\n%s", len(made), strings.Join(made, "\n"))
		}
	}
}

// The numbers of tenants are searched in an index, not counted for each new tenant: 8,000 in one apply cost as
// much as in 32 applies of 250.
func TestLongATenantCostsTheSameAmongManyInOneApply(t *testing.T) {
	testkit.TakesLong(t)
	const all = 8_000
	b := ready(t)
	cost := func(tenants int) time.Duration {
		var operations []string
		for i := range tenants {
			operations = append(operations, apply("tenant", fmt.Sprintf(`{"tenantName":"t%05d"}`, i)))
		}
		sent := body(operations)
		return testkit.Least(t, 3, func() {
			for range all / tenants {
				r, answer := httptest.NewRequest("POST", rest.ApplyPath+"?dryRun=true", strings.NewReader(sent)), httptest.NewRecorder()
				if b.api.ServeHTTP(answer, r); answer.Code != 200 {
					t.Fatalf("%d %.300s", answer.Code, answer.Body)
				}
			}
		})[0]
	}
	few, many := cost(250), cost(all)
	t.Logf("%d tenants cost %v in applies of 250, and %v in one", all, few, many)
	if many > 3*few {
		t.Error("that is more")
	}
}

// BenchmarkApply compares an apply of a thousand objects over REST with putting as
// many keys into the same etcd, a hundred in a transaction.
func BenchmarkApply(b *testing.B) {
	m := ready(b)
	create, remove := aThousand(m)
	send := func(operations []string) time.Duration {
		request := httptest.NewRequest("POST", m.url+rest.ApplyPath, strings.NewReader(body(operations)))
		began := time.Now()
		resp, err := m.client.RoundTrip(request)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.Status, string(answer), err)
		}
		return time.Since(began)
	}
	putAll := func(n int) time.Duration {
		value := make([]byte, 420) // a usual size
		began := time.Now()
		for from := 0; from < n; from += 100 {
			var t objdb.Txn
			for i := from; i < min(from+100, n); i++ {
				t.Puts = append(t.Puts, objdb.KV{Key: fmt.Sprintf("/contiv.io/bench/%d", i), Value: value})
			}
			if _, _, err := m.db.Txn(b.Context(), t); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began)
	}
	var applied, raw []time.Duration
	for b.Loop() {
		before, _ := m.present()
		applied = append(applied, send(create))
		after, _ := m.present()
		raw = append(raw, putAll(after-before))
		send(remove)
	}
	half := len(applied) / 2
	took, reference := slices.Sorted(slices.Values(applied))[half], slices.Sorted(slices.Values(raw))[half]
	b.ReportMetric(float64(took.Microseconds())/1000, "ms-applied")
	b.ReportMetric(float64(reference.Microseconds())/1000, "ms-raw")
	b.ReportMetric(float64(took)/float64(reference), "ratio")
}
