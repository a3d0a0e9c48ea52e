package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
)

// twoNodes returns an index with h1 and h2, an endpoint on each, and h2's reports.
func twoNodes(f *testing.F) *index {
	x := newIndex(nil, nil)
	know := func(key string, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		x.take(mirror.Event{Key: key, Value: data, ModRevision: 5}, 5)
	}
	for i, host := range []string{"h2", "h1"} {
		own := []string{fmt.Sprint("192.0.2.", i+1)}
		know(mastercfg.NodePrefix+host, mastercfg.Joined{Host: host, Key: host, Addresses: own, VTEPs: own, Joined: time.Unix(int64(i+1), 0)})
		know(mastercfg.EndpointPrefix+"net.blue-"+host, mastercfg.CfgEndpointState{ID: "net.blue-" + host, NetID: "net.blue", HomingHost: host})
	}
	know(mastercfg.OperEndpointPrefix+"net.blue-h2", mastercfg.OperEndpointState{ID: "net.blue-h2", HomingHost: "h2"})
	know(entry("h2", "192.0.2.1").Key(), entry("h2", "192.0.2.1"))
	return x
}

// A node may write or delete only its own records, whatever it requests.
func FuzzWhatANodeWrites(f *testing.F) {
	x := twoNodes(f)
	lease := mastercfg.LeasesOf("h1") | 1
	for _, host := range []string{"h1", "h2"} {
		address := map[string]string{"h1": "192.0.2.2", "h2": "192.0.2.1"}[host]
		for _, s := range []objdb.Service{entry(host, address), agentOf(host, address)} {
			value, err := json.Marshal(s)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(s.Key(), value, lease, false)
			f.Add(s.Key(), value, int64(0), true)
		}
		report := []byte(`{"id":"net.blue-` + host + `","homingHost":"` + host + `"}`)
		for _, key := range []string{mastercfg.OperEndpointPrefix + "net.blue-" + host, mastercfg.OvsDriverPrefix + host, mastercfg.K8sEnforcedKey(host), mastercfg.NodePrefix + host, mastercfg.EndpointPrefix + "net.blue-" + host} {
			f.Add(key, report, int64(0), false)
			f.Add(key, report, int64(0), true)
		}
	}
	f.Fuzz(func(t *testing.T, key string, value []byte, lease int64, deletes bool) {
		op := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value, Lease: lease}}}
		if deletes {
			op = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
		}
		if _, _, why := x.judge(keyholder{"h1", "h1"}, &pb.TxnRequest{Success: []*pb.RequestOp{op}}); why != nil {
			return
		}
		var said struct {
			Hostname   string
			HomingHost string `json:"homingHost"`
		}
		if !deletes {
			if err := json.Unmarshal(value, &said); err != nil {
				t.Fatalf("%q may be %q: %v", key, value, err)
			}
		}
		registers, reports := strings.HasPrefix(key, objdb.ServicePrefix), strings.HasPrefix(key, mastercfg.OperEndpointPrefix)
		switch {
		case key == mastercfg.OvsDriverPrefix+"h1", key == mastercfg.K8sEnforcedKey("h1"):
		case registers && strings.Contains(key, "192.0.2.2") && (deletes || said.Hostname == "h1" && lease>>32 == mastercfg.LeasesOf("h1")>>32):
		case reports && key != mastercfg.OperEndpointPrefix+"net.blue-h2" && (deletes || said.HomingHost == "h1"):
		default:
			t.Errorf("%q may be %q, with lease %d, deleted: %v", key, value, lease, deletes)
		}
	})
}
