package objdb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	sealable = "/contiv.io/state/nets/a"
	other    = "/contiv.io/oper/eps/a"
)

// A client with the keyring reads the values that were written; the store has them encrypted, for the keys to be
// encrypted only.
func TestValuesAreSealedInTheStoreAlone(t *testing.T) {
	url := testetcd.New(t)
	values := &testdb.Values{}
	db := testdb.Open(t, objdb.Config{Endpoints: []string{url}, Values: values})
	ctx := context.Background()
	watch := watching(t, db)
	for _, key := range []string{sealable, other, "/contiv.io/journal/netmaster/leader/x/000000", "/contiv.io/obj/modeldb/tenant/a"} {
		for _, value := range []string{"canary 1", "canary 2", ""} {
			testdb.Put(t, db, key, value)
			kv, err := db.Get(ctx, key)
			if err != nil || string(kv.Value) != value {
				t.Errorf("%s: %q, %v; want %q", key, kv.Value, err, value)
			}
			stored, err := db.Get(objdb.AsStored(ctx), key)
			if is := objdb.IsSealed(key, stored.Value); err != nil || is != (key != other) || is && value != "" && strings.Contains(string(stored.Value), value) {
				t.Errorf("%s: stored as %q, %v", key, stored.Value, err)
			}
		}
	}
	for _, want := range []string{"canary 1 after ", "canary 2 after canary 1", " after canary 2"} {
		if got := watch(); got != want {
			t.Errorf("a watch tells %q, want %q", got, want)
		}
	}
	testdb.Put(t, db, sealable, "canary 3")
	testdb.Put(t, db, sealable+"0", "canary 5")
	answer, err := objdb.Call(ctx, db, "transaction", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(sealable), "=", 0)).Else(
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(sealable, "canary 4", clientv3.WithPrevKV())}, nil),
			clientv3.OpGet(sealable), clientv3.OpDelete(sealable+"0", clientv3.WithPrevKV())).Commit()
	})
	if err != nil {
		t.Fatal(err)
	}
	within := answer.Responses[0].GetResponseTxn().Responses[0].GetResponsePut().PrevKv
	got, deleted := answer.Responses[1].GetResponseRange().Kvs[0], answer.Responses[2].GetResponseDeleteRange().PrevKvs[0]
	if string(within.Value) != "canary 3" || string(got.Value) != "canary 4" || string(deleted.Value) != "canary 5" {
		t.Errorf("a transaction answers with %q, %q, %q", within.Value, got.Value, deleted.Value)
	}

	testdb.Put(t, db, sealable, "sealed")
	values.Off.Store(true)
	testdb.Put(t, db, sealable+"b", "plain")
	for key, want := range map[string]string{sealable: "sealed", sealable + "b": "plain"} {
		if kv, err := db.Get(ctx, key); err != nil || string(kv.Value) != want {
			t.Errorf("%s: %q, %v", key, kv.Value, err)
		}
	}
	if plain := testdb.Plain(t, db, "/contiv.io/state/", "sealed"); fmt.Sprint(plain) != "["+sealable+"b]" {
		t.Errorf("stored plainly: %v", plain)
	}
}

// watching begins a watch of a key to be encrypted; next returns its next event.
func watching(t *testing.T, db *objdb.DB) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	client, err := db.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	events := client.Watch(ctx, sealable, clientv3.WithRev(1), clientv3.WithPrevKV())
	var rest []*clientv3.Event
	return func() string {
		if len(rest) == 0 {
			answer := <-events
			if rest = answer.Events; answer.Err() != nil || len(rest) == 0 {
				return fmt.Sprint("error: ", answer.Err())
			}
		}
		e := rest[0]
		rest = rest[1:]
		return fmt.Sprintf("%s after %s", e.Kv.Value, e.PrevKv.GetValue())
	}
}

// Reads and watches by a client without the keyring return errors: encrypted values do not count as absent or
// damaged.
func TestWhoHasNoKeysIsTold(t *testing.T) {
	url := testetcd.New(t)
	values := &testdb.Values{}
	db := testdb.Open(t, objdb.Config{Endpoints: []string{url}, Values: values})
	agent := testdb.At(t, url)
	testdb.Put(t, db, sealable, "canary")
	testdb.Put(t, db, other, "enc:v1:of somebody who may write here")
	for name, c := range map[string]struct {
		db   *objdb.DB
		kind fault.Kind
		want string
	}{"an agent": {agent, fault.Denied, "netplugin --netmasters"}, "a netmaster whose keyring is lost": {db, fault.Internal, "no key"}} {
		values.Lost.Store(c.db == db)
		_, err := c.db.Get(context.Background(), sealable)
		_, _, listing := c.db.List(context.Background(), "/contiv.io/state/")
		for _, err := range []error{err, listing} {
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), sealable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if told := watching(t, c.db)(); !strings.Contains(told, c.want) {
			t.Errorf("%s: a watch tells %q", name, told)
		}
		if kv, err := c.db.Get(context.Background(), other); err != nil || !strings.Contains(string(kv.Value), "somebody") {
			t.Errorf("%s: %q, %v", name, kv.Value, err)
		}
	}
}
