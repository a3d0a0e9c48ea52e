package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// crowdID returns the container id of the i-th endpoint of a crowd.
func crowdID(i int) string { return fmt.Sprintf("c%08x", uint32(i)*2654435761) }

// crowded begins with n endpoints of the group blue:front, in the network blue:web.
func crowded(t testing.TB, n int) *bench {
	t.Helper()
	b := furnished(t)
	for first := 0; first < n; first += 1000 {
		_, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
			for i := first; i < min(n, first+1000); i++ {
				id := crowdID(i)
				ep := mastercfg.CfgEndpointState{
					ID: "web.blue-" + id, NetID: "web.blue", EndpointID: id, ServiceName: "front", EndpointGroupKey: "front:blue",
					EndpointGroupID: 1, IPAddress: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255),
					MacAddress: fmt.Sprintf("02:02:0a:%02x:%02x:%02x", i>>16, i>>8&255, i&255), HomingHost: "h1", EPCommonName: "pod-" + id,
				}
				if err := ledger.Write(tx, mastercfg.EndpointPrefix+ep.ID, &ep); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// longest are the routes with the longest answers.
var longest = []string{
	"/debug/ofnet", "/api/v1/inspect/tenants/blue/", "/api/v1/inspect/networks/blue:web/", "/api/v1/inspect/policys/blue:p/",
}

// writes counts the requests whose answer has begun.
func writes(next http.Handler, begun *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&firstWrite{ResponseWriter: w, begun: begun}, r)
	})
}

type firstWrite struct {
	http.ResponseWriter
	begun *atomic.Int64
	once  sync.Once
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { f.begun.Add(1) })
	return f.ResponseWriter.Write(p)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestClientsThatDoNotReadCostLittleAndHoldNoState(t *testing.T) {
	const endpoints, clients = 3000, 16
	b := crowded(t, endpoints)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	var begun atomic.Int64
	server := httptest.NewUnstartedServer(writes(b.api, &begun))
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(4096); err != nil { // or the kernel keeps most of an answer
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	t.Cleanup(server.Close)
	before := heap()
	for i := range clients {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", longest[i%len(longest)]); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 60*time.Second, "all are being answered", func() bool { return begun.Load() == clients })
	// One answer is 1 to 1.5 MB, so without compression they would take 20.
	if grown := heap() - before; grown > 6<<20 {
		t.Errorf("%d clients that do not read cost %d KiB", clients, grown>>10)
	}
	var whole struct {
		Oper contivmodel.NetworkOper
	}
	if err := json.Unmarshal([]byte(b.ok("GET", longest[2], "")), &whole); err != nil || len(whole.Oper.Endpoints) != endpoints {
		t.Errorf("a client that reads gets %d endpoints, %v", len(whole.Oper.Endpoints), err)
	}
}

// A client's answer is of one state, and complete, however slowly it reads.
func TestASlowReaderGetsOneStateWhole(t *testing.T) {
	b := crowded(t, 1500)
	before := b.ok("GET", "/debug/ofnet", "")
	resp, err := http.Get(b.url + "/debug/ofnet")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b.noEndpoint("blue", "web", crowdID(1499))
	var slowly strings.Builder
	for {
		if n, err := io.CopyN(&slowly, resp.Body, 64<<10); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		runtime.Gosched()
	}
	if diff := cmp.Diff(before, strings.TrimSuffix(slowly.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestARefusalInTheMiddleOfALongAnswerIsARefusal(t *testing.T) {
	b := crowded(t, 1500)
	b.ok("POST", "networks/blue:zone", `{"tenantName":"blue","networkName":"zone","encap":"vxlan","subnet":"10.99.0.0/24"}`)
	b.ok("POST", "endpointGroups/blue:z", `{"tenantName":"blue","groupName":"z","networkName":"zone"}`)
	b.drop(mastercfg.EndpointGroupPrefix + "z:blue")
	b.refused("GET", "inspect/tenants/blue", "", "key not found: group z:blue", 404, "not-found")
}
