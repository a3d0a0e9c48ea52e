package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

func TestTransactionIsSeenByVsctl(t *testing.T) {
	s := startServer(t)
	c := s.dial(connectionOptions{})
	results, err := c.Transact(within(t), "Open_vSwitch",
		Insert("Interface", "iface", Row{"name": "p1", "type": "vxlan", "options": map[string]string{"key": "flow", "remote_ip": "flow"}, "ofport_request": 17}),
		Insert("Port", "port", Row{"name": "p1", "interfaces": []UUID{"iface"}, "external_ids": map[string]string{"endpoint-id": "web.blue-1"}}),
		Insert("Bridge", "bridge", Row{"name": "br1", "fail_mode": "secure", "protocols": []string{"OpenFlow10", "OpenFlow13"}, "ports": []UUID{"port"}}),
		Mutate("Open_vSwitch", All(),
			Mutation{"bridges", "insert", UUID("bridge")}, Mutation{"next_cfg", "+=", 1}),
		Comment("made by a test"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].UUID == "" || results[3].Count != 1 {
		t.Errorf("results: %+v", results)
	}
	for _, c := range []struct{ args, want string }{
		{"list-br", "br1"},
		{"list-ports br1", "p1"},
		{"get Interface p1 options", `{key=flow, remote_ip=flow}`},
		{"get Interface p1 ofport_request", "17"},
		{"get Port p1 external_ids:endpoint-id", "web.blue-1"},
		{"get Bridge br1 protocols", `[OpenFlow10, OpenFlow13]`},
		{"get Bridge br1 fail_mode", "secure"},
		{"get Open_vSwitch . next_cfg", "1"},
	} {
		if got := s.vsctl(strings.Fields(c.args)...); got != c.want {
			t.Errorf("ovs-vsctl %s: %s, want %s", c.args, got, c.want)
		}
	}
}

func TestUpdateMutateSelectDelete(t *testing.T) {
	s := startServer(t)
	s.vsctl("add-br", "br1", "--", "set", "Bridge", "br1", "external_ids:a=1", "external_ids:b=2")
	c := s.dial(connectionOptions{})
	byName := Where("name", "br1")
	results, err := c.Transact(within(t), "Open_vSwitch",
		Update("Bridge", byName, Row{"datapath_type": "netdev"}),
		Mutate("Bridge", byName,
			Mutation{"external_ids", "delete", []string{"a"}},
			Mutation{"external_ids", "insert", map[string]string{"c": "3"}}),
		Select("Bridge", byName, "_uuid", "name", "external_ids", "datapath_type"),
		WaitEqual(0, "Bridge", byName, []string{"datapath_type"}, Row{"datapath_type": "netdev"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	var bridge struct {
		UUID        UUID              `ovsdb:"_uuid"`
		Name        string            `ovsdb:"name"`
		Datapath    string            `ovsdb:"datapath_type"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
	}
	if err := decodeRow(results[2].Rows[0], &bridge); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(bridge.Name, bridge.Datapath, bridge.ExternalIDs); got != "br1netdevmap[b:2 c:3]" {
		t.Errorf("row read back: %s", got)
	}
	if want := s.vsctl("get", "Bridge", "br1", "_uuid"); string(bridge.UUID) != want {
		t.Errorf("uuid %s, want %s", bridge.UUID, want)
	}
	results, err = c.Transact(within(t), "Open_vSwitch",
		Mutate("Open_vSwitch", All(), Mutation{"bridges", "delete", bridge.UUID}))
	if err != nil || results[0].Count != 1 {
		t.Fatalf("%+v, %v", results, err)
	}
	if got := s.vsctl("list-br"); got != "" {
		t.Errorf("bridge still there: %s", got)
	}
}

func TestARefusedTransactionNamesTheOperationAndChangesNothing(t *testing.T) {
	s := startServer(t)
	s.vsctl("add-br", "br1")
	c := s.dial(connectionOptions{})
	newBridge := Insert("Bridge", "fresh", Row{"name": "br2"})
	for _, test := range []struct {
		name string
		ops  []Operation
		want string
		kind fault.Kind
	}{
		{"wait", []Operation{newBridge, WaitEqual(0, "Bridge", Where("name", "br1"), []string{"fail_mode"}, Row{"fail_mode": "secure"})},
			"operation 1 (wait Bridge): timed out", fault.Conflict},
		{"column", []Operation{Insert("Bridge", "", Row{"nonsense": 1})}, "operation 0 (insert Bridge): unknown column", fault.Internal},
		{"enum", []Operation{Update("Bridge", Where("name", "br1"), Row{"fail_mode": "open"})}, "operation 0 (update Bridge): constraint violation", fault.Invalid},
		{"commit", []Operation{newBridge, Mutate("Open_vSwitch", All(), Mutation{"bridges", "insert", UUID("fresh")}),
			Insert("Bridge", "twin", Row{"name": "br1"}), Mutate("Open_vSwitch", All(), Mutation{"bridges", "insert", UUID("twin")})},
			"commit: constraint violation", fault.Invalid},
		{"assert", []Operation{assertLock("nobodys")}, "operation 0 (assert ): not owner", fault.Conflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.Transact(within(t), "Open_vSwitch", test.ops...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if fault.KindOf(err) != test.kind {
				t.Errorf("kind %s, want %s", fault.KindOf(err), test.kind)
			}
		})
	}
	if got := s.vsctl("list-br"); got != "br1" {
		t.Errorf("bridges: %s", got)
	}
	if err := c.Err(); err != nil {
		t.Errorf("refusals ended the connection: %v", err)
	}
}

func TestServerRefusesAnUnknownMethodAndTheConnectionLives(t *testing.T) {
	c := startServer(t).dial(connectionOptions{})
	if err := c.Call(within(t), "dance", []any{}, nil); err == nil || !strings.Contains(err.Error(), "unknown method") {
		t.Errorf("error %v", err)
	}
	var names []string
	if err := c.Call(within(t), "list_dbs", []any{}, &names); err != nil {
		t.Error(err)
	}
}

// fakeServer is the other end of a connection whose peer the test plays.
func fakeServer(t *testing.T, options connectionOptions) (*connection, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	c := newConnection(ours, options)
	t.Cleanup(func() {
		_ = theirs.Close()
		_ = c.Close()
	})
	if err := theirs.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c, theirs
}

func TestEchoIsAnsweredWithTheSameParams(t *testing.T) {
	_, peer := fakeServer(t, connectionOptions{})
	if _, err := peer.Write([]byte(`{"id":"echo","method":"echo","params":["are","you",1]}`)); err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.NewDecoder(peer).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(answer["id"], answer["result"], answer["error"]); got != "echo[are you 1] <nil>" {
		t.Errorf("answer %v", answer)
	}
}

func TestASilentPeerIsAskedAndThenGivenUp(t *testing.T) {
	c, peer := fakeServer(t, connectionOptions{ProbeInterval: 500 * time.Millisecond})
	decoder := json.NewDecoder(peer)
	var question message
	if err := decoder.Decode(&question); err != nil || question.Method == nil || *question.Method != "echo" {
		t.Fatalf("question %+v, %v", question, err)
	}
	<-c.Done()
	if err := c.Err(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("error %v", err)
	}
}

func TestAnAnsweringPeerIsKept(t *testing.T) {
	c, peer := fakeServer(t, connectionOptions{ProbeInterval: 500 * time.Millisecond})
	decoder := json.NewDecoder(peer)
	for range 3 {
		var question message
		if err := decoder.Decode(&question); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(peer, `{"id":%s,"result":[],"error":null}`, question.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Err(); err != nil {
		t.Errorf("ended: %v", err)
	}
}

func TestGarbageEndsTheConnection(t *testing.T) {
	for _, garbage := range []string{
		`}`, `[]`, `5`, `"x"`, `{}`, `{"id":null}`, `{"id":"ours?","result":1}`, "\x00\x01",
		`{"id":1,"result":{"no":"array"},"error":null}`,
		`{"id":1,"result":[],"error":null}`,
		`{"id":1,"result":[null],"error":null}`,
		`{"id":1,"result":[{},{},{}],"error":null}`,
		`{"id":1,"result":[{},{}],"error":null}`,
		`{"id":1,"result":[{"uuid":5}],"error":null}`,
		`{"id":1,"result":[{"count":"x"}],"error":null}`,
		`{"id":1}`,
	} {
		t.Run(garbage, func(t *testing.T) {
			c, peer := fakeServer(t, connectionOptions{})
			failed := make(chan error, 1)
			go func() {
				_, err := c.Transact(context.Background(), "db", Comment("x"))
				failed <- err
			}()
			var request message
			if err := json.NewDecoder(peer).Decode(&request); err != nil {
				t.Fatal(err)
			}
			if _, err := peer.Write([]byte(garbage + "\n")); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; err == nil {
				t.Error("the transaction succeeded")
			}
			<-c.Done()
		})
	}
}

func TestAMessageBeyondTheBoundEndsTheConnection(t *testing.T) {
	c, peer := fakeServer(t, connectionOptions{MaxMessage: 1 << 16})
	chunk := []byte(strings.Repeat("x", 4096))
	if _, err := peer.Write([]byte(`{"method":"`)); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := peer.Write(chunk); err != nil {
			break // closed, as it should be
		}
	}
	<-c.Done()
	if err := c.Err(); !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("error %v", err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	c, peer := fakeServer(t, connectionOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		var request message
		_ = json.NewDecoder(peer).Decode(&request)
		cancel()
	}()
	if err := c.Call(ctx, "slow", []any{}, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("the connection ended: %v", err)
	}
}

// FuzzReceive: a peer may send anything; it never takes the process down.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"result":[{"uuid":["uuid","a-b"]}],"error":null}`,
		`{"method":"update","params":[null,{"Bridge":{"a-b":{"new":{"name":"x","ports":["set",[]]}}}}]}`,
		`{"method":"update","params":[null,{"Bridge":{"a-b":{"old":{"name":"x"}}}}]}`,
		`{"id":"echo","method":"echo","params":[]}`, `{"id":1,"error":"x"}`, `[[[`, `{"method":"update"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		table := NewTable("Bridge", func(Change[bridgeRow]) {})
		client, err := New(Config{}, table)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		c := newConnection(ours, connectionOptions{Notify: client.notified, ProbeInterval: -1})
		written := make(chan struct{})
		go func() {
			defer close(written)
			buffer := make([]byte, 4096)
			for {
				if _, err := theirs.Read(buffer); err != nil {
					return
				}
			}
		}()
		_, _ = theirs.Write(raw)
		_ = theirs.Close()
		_ = c.Close()
		<-written
	})
}
