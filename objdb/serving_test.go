package objdb

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// hanging is an endpoint of a store behind which a member is cut off from the others, or waits for its disk: it accepts
// connections and requests, and answers none.
type hanging struct {
	url    string
	hangs  atomic.Bool
	served atomic.Int64 // requests
}

func newHanging(t *testing.T, store string) *hanging {
	h := &hanging{}
	h.url = testetcd.NewRelay(t, store, func(r testetcd.Request) ([]byte, error) {
		if h.hangs.Load() {
			<-t.Context().Done()
			return nil, testetcd.ErrNoAnswer
		}
		h.served.Add(1)
		return r.Send()
	})
	return h
}

// inARow reports whether so many requests in turn are answered soon.
func inARow(db *DB, requests int) bool {
	for range requests {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := db.Ping(ctx)
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}

func TestAnEndpointThatDoesNotServeIsLeftOut(t *testing.T) {
	store := testetcd.New(t)
	h := newHanging(t, store)
	log, told := testkit.Recorded()
	db := open(t, Config{Endpoints: []string{store, h.url}, RequestTimeout: 20 * time.Second, Log: log})
	testkit.Eventually(t, time.Minute, "both endpoints are used", func() bool { return db.Ping(t.Context()) == nil && h.served.Load() > 0 })
	term := campaign(t, db, "a", time.Minute)

	h.hangs.Store(true)
	var reading sync.WaitGroup
	for range 8 { // of which half begin at the endpoint that hangs
		reading.Go(func() {
			if err := db.Ping(t.Context()); err != nil {
				t.Errorf("a read that began where nobody answers: %v", err)
			}
		})
	}
	reading.Wait()
	testkit.Eventually(t, time.Minute, "only the other endpoint is used", func() bool { return inARow(db, 20) })
	for i := range 20 {
		if _, _, err := term.Commit(t.Context(), Txn{Puts: []KV{{Key: "/x/a", Value: fmt.Append(nil, i)}}}); err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	if silent, err := db.Silent(t.Context()); err != nil || fmt.Sprint(silent) != fmt.Sprint([]string{h.url}) {
		t.Errorf("silent: %v, %v; want %s", silent, err, h.url)
	}
	if text := told.String(); !strings.Contains(text, "does not serve") || !strings.Contains(text, h.url) {
		t.Errorf("the log: %s", text)
	}

	before := h.served.Load()
	h.hangs.Store(false)
	testkit.Eventually(t, time.Minute, "it is used again", func() bool { return db.Ping(t.Context()) == nil && h.served.Load() > before+1 })
	testkit.Eventually(t, time.Minute, "told", func() bool { return strings.Contains(told.String(), "serves again") })
	resign(t, term)
}

func TestWhereNoEndpointServesTheFirstThatDoesIsUsed(t *testing.T) {
	store := testetcd.New(t)
	a, b := newHanging(t, store), newHanging(t, store)
	db := open(t, Config{Endpoints: []string{a.url, b.url}, RequestTimeout: 20 * time.Second})
	testkit.Eventually(t, time.Minute, "the store is used", func() bool { return inARow(db, 4) })
	a.hangs.Store(true)
	testkit.Eventually(t, time.Minute, "one endpoint is used", func() bool { return inARow(db, 20) })
	b.hangs.Store(true)
	testkit.Eventually(t, time.Minute, "nobody answers", func() bool { return !inARow(db, 1) })
	a.hangs.Store(false)
	testkit.Eventually(t, time.Minute, "the other one is used", func() bool { return inARow(db, 20) })
}

func leftOf(db *DB) []string {
	_, left := db.serving.split(db.Endpoints())
	return left
}

// A member serves nothing while its file is written anew, and so it is left out.
func TestAMemberIsLeftOutWhileItsFileIsWrittenAnewAndThatGoesOn(t *testing.T) {
	written := make(chan struct{})
	member := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(in); method != etcdserverpb.Maintenance_Defragment_FullMethodName {
			<-in.Context().Done()
			return in.Context().Err()
		}
		select {
		case <-written:
			return in.SendMsg(&etcdserverpb.DefragmentResponse{})
		case <-in.Context().Done():
			return in.Context().Err()
		}
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = member.Serve(l) }) // its error says that it was stopped
	defer member.Stop()
	url := "http://" + l.Addr().String()
	db := open(t, Config{Endpoints: []string{testetcd.New(t), url}, RequestTimeout: 20 * time.Second})
	done := make(chan error, 1)
	running.Go(func() { done <- db.Defragment(t.Context(), url) })
	testkit.Eventually(t, time.Minute, "it is left out", func() bool { return db.Ping(t.Context()) == nil && slices.Contains(leftOf(db), url) })
	close(written)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
