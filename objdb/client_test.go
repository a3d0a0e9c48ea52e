package objdb

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// With a password, the etcd client is created on the first request. A store that accepts connections but never
// answers delays only the requests that wait for it: not one with a shorter timeout, and not Close.
func TestASilentStoreHoldsUpOnlyWhoWaitsForIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	db, err := Open(Config{
		Endpoints: []string{"http://" + l.Addr().String()}, User: "root", Password: "secret",
		DialTimeout: 30 * time.Second, RequestTimeout: time.Minute, Log: testkit.Quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	hasLeft, leave := context.WithCancel(t.Context())
	leave()
	if err := db.Ping(hasLeft); !fault.Is(err, fault.Unavailable) || !strings.HasSuffix(err.Error(), "connect: context canceled") {
		t.Errorf("who does not wait is told %v", err)
	}
	waiting := make(chan error)
	go func() { waiting <- db.Ping(t.Context()) }()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "deadline") {
		t.Errorf("who waits is told %v", err)
	}
	if _, err := db.Client(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.HasSuffix(err.Error(), "connection is closed") {
		t.Errorf("after that: %v", err)
	}
}
