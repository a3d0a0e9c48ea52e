package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
)

// etcdLimit is the time limit of a start on a busy machine.
const etcdLimit = time.Minute

// etcd is a separate etcd process, which can be killed, and a connection to it.
type etcd struct {
	t       testing.TB
	url     string
	process *etcdtest.Process
	db      *objdb.DB
}

func newEtcd(t testing.TB) *etcd {
	t.Helper()
	testkit.NeedsMachine(t)
	process := etcdtest.New(t.TempDir())
	t.Cleanup(process.Kill)
	return &etcd{t: t, url: process.URL, process: process, db: openDB(t, process.URL)}
}

func openDB(t testing.TB, url string) *objdb.DB {
	t.Helper()
	db, err := objdb.Open(objdb.Config{Endpoints: []string{url}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// start starts the store and waits until it answers.
func (e *etcd) start() *etcd {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), etcdLimit)
	defer cancel()
	if err := e.process.Start(ctx); err != nil {
		e.t.Fatal(err)
	}
	return e
}

// stop kills the store as kill -9 does; its data remains.
func (e *etcd) stop() { e.process.Kill() }

// wipe replaces the store by a new, empty one at the same address.
func (e *etcd) wipe() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), etcdLimit)
	defer cancel()
	if err := e.process.Replace(ctx, etcdtest.Token); err != nil {
		e.t.Fatal(err)
	}
}

// backup saves the store's content for restore.
func (e *etcd) backup() (file string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), etcdLimit)
	defer cancel()
	file, err := e.process.Backup(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	return file
}

// restore replaces the store by one from a backup.
func (e *etcd) restore(file string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), etcdLimit)
	defer cancel()
	if err := e.process.Restore(ctx, file); err != nil {
		e.t.Fatal(err)
	}
}

// put writes pairs of keys and values in one transaction and returns its revision.
func (e *etcd) put(pairs ...string) int64 {
	e.t.Helper()
	var txn objdb.Txn
	for i := 0; i < len(pairs); i += 2 {
		txn.Puts = append(txn.Puts, objdb.KV{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return e.commit(txn)
}

func (e *etcd) del(keys ...string) int64 {
	e.t.Helper()
	return e.commit(objdb.Txn{Deletes: keys})
}

func (e *etcd) commit(txn objdb.Txn) int64 {
	e.t.Helper()
	revision, _, err := e.db.Txn(e.t.Context(), txn)
	if err != nil {
		e.t.Fatal(err)
	}
	return revision
}

// keys returns the keys below a prefix.
func (e *etcd) keys(prefix string) []string {
	e.t.Helper()
	kvs, _, err := e.db.List(e.t.Context(), prefix)
	if err != nil {
		e.t.Fatal(err)
	}
	var keys []string
	for _, kv := range kvs {
		keys = append(keys, strings.TrimPrefix(kv.Key, prefix))
	}
	return keys
}

// compact compacts the store to a revision.
func (e *etcd) compact(revision int64) {
	e.t.Helper()
	resp, err := http.Post(e.url+"/v3/kv/compaction", "application/json", strings.NewReader(fmt.Sprintf(`{"revision":%d,"physical":true}`, revision)))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		e.t.Fatalf("compaction: %s: %s", resp.Status, body)
	}
}

// wire is a connection to the store that a test can cut.
type wire struct {
	url    string
	target string
	mu     sync.Mutex
	cut    bool
	conns  map[net.Conn]struct{}
	all    sync.WaitGroup
}

func newWire(t testing.TB, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "http://" + listener.Addr().String(), target: strings.TrimPrefix(target, "http://"), conns: make(map[net.Conn]struct{})}
	w.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.all.Go(func() { w.join(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		w.set(true)
		w.all.Wait()
	})
	return w
}

// set cuts or restores the wire.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for conn := range w.conns {
			conn.Close()
		}
	}
}

func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = struct{}{}
	return !w.cut
}

func (w *wire) join(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.keep(near) || !w.keep(far) {
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // ends when either side closes
			pair[0].Close()
			pair[1].Close()
		})
	}
	both.Wait()
}

// eventually polls until a check passes, and fails the test with its last error.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := testkit.Poll(ctx, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
