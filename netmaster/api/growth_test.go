package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

// present is how many objects are there when the cost of one more is measured.
const present = 10000

// fill makes n objects behind the API's back, as they would be after as many
// requests; networks without tags, of which there are fewer.
func (b *bench) fill(n int, put func(tx *objdb.Tx, i int) error) {
	b.Helper()
	_, err := b.ledger.Update(b.Context(), func(tx *objdb.Tx) error {
		for i := range n {
			if err := put(tx, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func fillNetwork(tx *objdb.Tx, i int) error {
	n := &contivmodel.Network{TenantName: "blue", NetworkName: fmt.Sprintf("n%05d", i), Encap: "vxlan", NwType: "data",
		Subnet: fmt.Sprintf("10.%d.%d.0/24", 128+i>>8, i&255)}
	n.Links.Tenant = contivmodel.Link{Type: "tenant", Key: "blue"}
	if err := master.Put(tx, n); err != nil {
		return err
	}
	id := mastercfg.NetworkID("blue", n.NetworkName)
	return objdb.Write(tx, mastercfg.NetworkPrefix+id, mastercfg.CfgNetworkState{ID: id, Tenant: "blue", NetworkName: n.NetworkName,
		PktTagType: "vxlan", SubnetIP: fmt.Sprintf("10.%d.%d.0", 128+i>>8, i&255), SubnetLen: 24, IPAllocMap: mastercfg.NewBitmap(256)})
}

func fillRule(tx *objdb.Tx, i int) error {
	r := &contivmodel.Rule{TenantName: "blue", PolicyName: "p", RuleID: fmt.Sprintf("r%05d", i), Direction: "in", Action: "allow",
		Protocol: "tcp", Port: i + 1, Priority: 1, FromEndpointGroup: "back"}
	policy, err := master.Get[contivmodel.Policy](tx, "blue:p", nil)
	if err != nil {
		return err
	}
	r.LinkSets.Policies.Add(policy)
	if err := master.Put(tx, r); err != nil {
		return err
	}
	return master.ApplyRule(tx, policy, r)
}

func fillEndpoint(tx *objdb.Tx, i int) error {
	_, err := master.CreateEndpoint(tx, &mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "big",
		ConfigEP: mastercfg.ConfigEP{Container: fmt.Sprintf("f%05d", i), Host: "h1", ServiceName: "front"}})
	return err
}

const big = `{"tenantName":"blue","networkName":"big","encap":"vxlan","subnet":"10.64.0.0/16","ipv6Subnet":"2001:db8::/64"}`

// growing has a network, two groups and a policy.
func growing(t testing.TB) *bench { return ready(t).grow() }

func (b *bench) grow() *bench {
	b.ok("POST", "networks/blue:big", big)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"big","policies":["p"]}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"big"}`)
	return b
}

// growth is what is added one by one: how many are there before, and a request for one more.
var growth = map[string]struct {
	fill func(*objdb.Tx, int) error
	add  func(b *bench, i int)
}{
	"rule": {fillRule, func(b *bench, i int) {
		b.ok("POST", fmt.Sprintf("rules/blue:p:x%d", i), fmt.Sprintf(`{"tenantName":"blue","policyName":"p","ruleId":"x%d","direction":"in",`+
			`"action":"allow","protocol":"tcp","port":%d,"fromEndpointGroup":"back"}`, i, 20000+i))
	}},
	"network": {fillNetwork, func(b *bench, i int) {
		b.ok("POST", fmt.Sprintf("networks/blue:x%d", i), fmt.Sprintf(`{"tenantName":"blue","networkName":"x%d","encap":"vxlan","subnet":"10.%d.%d.0/24"}`, i, i>>8, i&255))
	}},
	"endpoint": {fillEndpoint, func(b *bench, i int) { b.endpoint("blue", "big", "front", fmt.Sprintf("x%d", i)) }},
}

// BenchmarkOneMore compares adding an object when there are none and when there
// are ten thousand. The two clusters are measured in turn, so that what the
// machine does meanwhile happens to both.
func BenchmarkOneMore(b *testing.B) {
	for kind, g := range growth {
		b.Run(kind, func(b *testing.B) {
			few, many := growing(b), startOn(b, storetest.OpenOwn(b)).ready().grow()
			many.fill(present, g.fill)
			var without, with []time.Duration
			for i := range max(b.N, 300) {
				without = append(without, timed(func() { g.add(few, i) }))
				with = append(with, timed(func() { g.add(many, i) }))
			}
			b.ReportMetric(float64(median(without).Microseconds()), "us-with-none")
			b.ReportMetric(float64(median(with).Microseconds()), "us-with-10000")
			b.ReportMetric(float64(median(with))/float64(median(without)), "ratio")
		})
	}
}

func timed(work func()) time.Duration {
	began := time.Now()
	work()
	return time.Since(began)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkList lists ten thousand networks; the reference is encoding as much.
func BenchmarkList(b *testing.B) {
	m := growing(b)
	m.fill(present, fillNetwork)
	var took []time.Duration
	size := 0
	for range max(b.N, 10) {
		took = append(took, timed(func() { size = len(m.ok("GET", "networks", "")) }))
	}
	b.ReportMetric(float64(median(took).Milliseconds()), "ms")
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(median(copying(b, size)).Microseconds())/1000, "ms-to-send-as-much")
}

// copying times sending bytes over the loopback, which is the least an answer of that size takes.
func copying(b *testing.B, size int) (took []time.Duration) {
	b.Helper()
	content := bytes.Repeat([]byte("x"), size)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	for range 10 {
		took = append(took, timed(func() {
			resp, err := http.Get(server.URL)
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
		}))
	}
	return took
}

// BenchmarkApply applies a thousand objects at once; the reference is putting
// as many keys in transactions of a hundred.
func BenchmarkApply(b *testing.B) {
	var took, dry, raw []time.Duration
	for range min(max(b.N, 3), 5) {
		m := growing(b)
		operations := networks(500)
		for i := range 500 {
			operations = append(operations, apply("rule", fmt.Sprintf(`{"tenantName":"blue","policyName":"p","ruleId":"x%d","direction":"in",`+
				`"action":"allow","protocol":"tcp","port":%d,"fromEndpointGroup":"back"}`, i, 20000+i)))
		}
		dry = append(dry, timed(func() { m.applying("?dryRun=true", operations...) }))
		took = append(took, timed(func() { m.applying("", operations...) }))
		value := []byte(strings.Repeat("x", 400))
		raw = append(raw, timed(func() {
			for from := 0; from < 2500; from += 100 { // as many keys as the apply writes
				t := objdb.Txn{}
				for i := range 100 {
					t.Puts = append(t.Puts, objdb.KV{Key: fmt.Sprintf("/contiv.io/oper/bench/%d", from+i), Value: value})
				}
				if _, _, err := m.db.Txn(b.Context(), t); err != nil {
					b.Fatal(err)
				}
			}
		}))
	}
	b.ReportMetric(float64(median(took).Milliseconds()), "ms")
	b.ReportMetric(float64(median(dry).Milliseconds()), "ms-dry-run")
	b.ReportMetric(float64(median(raw).Milliseconds()), "ms-raw-puts")
}
