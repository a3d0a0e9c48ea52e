package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// A node may report only on existing endpoints, with or without a guard of its own.
func TestNoReportsOfEndpointsThatAreNot(t *testing.T) {
	b := newBed(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	key := mastercfg.OperEndpointPrefix + "net.blue-never"
	value := text(t, mastercfg.OperEndpointState{ID: "net.blue-never", HomingHost: "h1"})
	for name, guards := range map[string][]clientv3.Cmp{
		"no condition": nil, "present": {clientv3.Compare(clientv3.CreateRevision(mastercfg.EndpointPrefix+"net.blue-never"), ">", 0)},
		"absent": {clientv3.Compare(clientv3.ModRevision(mastercfg.EndpointPrefix+"net.blue-never"), "=", 0)},
	} {
		if answer, err := c.Txn(t.Context()).If(guards...).Then(clientv3.OpPut(key, value)).Commit(); err != nil || answer.Succeeded {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
	if _, err := b.db.Get(t.Context(), key); err == nil {
		t.Error("it is there")
	}
}

// A node's writes are limited in size, to that of proper reports, and in rate.
func TestWritesAreBounded(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	lease, err := c.Grant(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	write := func(ops ...clientv3.Op) error {
		_, err := c.Txn(t.Context()).Then(ops...).Commit()
		return err
	}
	summary := mastercfg.OvsDriverOperState{ID: "h1", LocalEpInfo: map[string]mastercfg.LocalEpInfo{}}
	for i := range 1000 { // the report of a large node
		summary.LocalEpInfo[fmt.Sprintf("net.blue-%0200d", i)] = mastercfg.LocalEpInfo{OvsPortName: "vvport1", EpgKey: strings.Repeat("g", 100), BridgeType: "vxlan"}
	}
	if err := write(clientv3.OpPut(mastercfg.OvsDriverPrefix+"h1", text(t, summary))); err != nil {
		t.Error(err)
	}
	padding := strings.Repeat(" ", maxSummary)
	var many []clientv3.Op
	for i := range 200 {
		many = append(many, clientv3.OpDelete(fmt.Sprintf("%snet.blue-%d", mastercfg.OperEndpointPrefix, i)))
	}
	for name, ops := range map[string][]clientv3.Op{
		"report":   {clientv3.OpPut(mastercfg.OperEndpointPrefix+"net.blue-c1", text(t, mastercfg.OperEndpointState{ID: "net.blue-c1", HomingHost: "h1"})+padding[:maxReport])},
		"summary":  {clientv3.OpPut(mastercfg.OvsDriverPrefix+"h1", "{}"+padding)},
		"epoch":    {clientv3.OpPut(mastercfg.K8sEnforcedKey("h1"), "{}"+padding[:maxEnforced])},
		"entry":    {clientv3.OpPut(entry("h1", "192.0.2.1").Key(), text(t, entry("h1", "192.0.2.1"))+padding[:maxEntry], clientv3.WithLease(lease.ID))},
		"many ops": many,
	} {
		if err := write(ops...); err == nil || !strings.Contains(err.Error(), " are more than ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	conditions := make([]clientv3.Cmp, 200)
	for i := range conditions {
		conditions[i] = clientv3.Compare(clientv3.ModRevision(mastercfg.GlobalConfigKey), ">", i)
	}
	if _, err := c.Txn(t.Context()).If(conditions...).Then(many[0]).Commit(); err == nil || !strings.Contains(err.Error(), " are more than ") {
		t.Errorf("many conditions: %v", err)
	}
	// As fast as a node can: its burst, and little more.
	began, written := time.Now(), 0
	for range 40 {
		if write(clientv3.OpPut(mastercfg.OvsDriverPrefix+"h1", "{}"+padding[:400<<10])) == nil {
			written += 400 << 10
		}
		if time.Since(began) > 3*time.Second {
			break
		}
	}
	if may := burstBytes + int(128<<10*time.Since(began).Seconds()); written > may {
		t.Errorf("%d bytes in %s, at most %d", written, time.Since(began), may)
	}
}

// A node that joins with an address of another one does not restrict that one.
func TestALaterNodeTakesNoAddress(t *testing.T) {
	b := newBed(t)
	n := b.join("h1", []string{"192.0.2.1"})
	b.join("h2", []string{"192.0.2.2", "172.17.0.1"})
	b.through(n, b.open())
	agent := entry("h1", "192.0.2.1")
	agent.Addresses = []string{"192.0.2.1", "172.17.0.1"}
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	lease, err := c.Grant(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Txn(t.Context()).Then(clientv3.OpPut(agent.Key(), text(t, agent), clientv3.WithLease(lease.ID))).Commit(); err != nil {
		t.Error(err)
	}
}
