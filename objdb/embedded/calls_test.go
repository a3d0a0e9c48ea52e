package embedded_test

import (
	"context"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// A call that read the store after it was closed would crash the whole process.
func TestAMemberThatIsReadWhileItStopsEndsInPeace(t *testing.T) {
	dir, url, peer := t.TempDir(), testkit.FreeURL(), testkit.FreeURL()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	serve := func() *testetcd.Child {
		c := testetcd.StartChild(t, "member", dir, url, peer)
		c.Expect(t, "ready")
		return c
	}

	first := serve()
	if _, err := client.Put(t.Context(), "/x/a", "1"); err != nil {
		t.Fatal(err)
	}
	first.Finish(t)

	second := serve() // reads the key from its file; the first one had it buffered, too
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for range 16 {
		readers.Go(func() {
			for reading.Err() == nil {
				_, _ = client.Get(reading, "/x/a", clientv3.WithSerializable()) // an error, once the member stops
			}
		})
	}
	if _, err := client.Get(reading, "/x/a"); err != nil {
		t.Fatal(err)
	}
	second.Finish(t)
}
