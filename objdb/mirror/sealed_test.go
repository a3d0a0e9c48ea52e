package mirror

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// A mirror without the keyring retains its state when values become encrypted: it delivers neither a change that
// it cannot read nor a deletion.
func TestAMirrorWithoutKeysStaysAsItWas(t *testing.T) {
	url := testetcd.New(t)
	values := &testdb.Values{}
	values.Off.Store(true)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{url}, Values: values})
	testdb.Put(t, db, watched+"a", "1")
	testdb.Put(t, db, watched+"b", "1")
	r := &replica{t: t, state: map[string]string{}}
	log, said := test.NewNullLogger()
	m := New(testdb.Open(t, objdb.Config{Endpoints: []string{url}, Log: logrus.NewEntry(log)}), watched, r.deliver)
	testetcd.Run(t, func(ctx context.Context) { _ = m.Run(ctx) })
	testkit.Eventually(t, time.Minute, "mirror is in step", func() bool { return m.Synced() && m.Connected() })

	values.Off.Store(false)
	testdb.Put(t, db, watched+"a", "2")
	testdb.Delete(t, db, watched+"b")
	testkit.Eventually(t, time.Minute, "the log says why nothing comes", func() bool {
		return slices.ContainsFunc(said.AllEntries(), func(e *logrus.Entry) bool { return strings.Contains(fmt.Sprint(e.Data["error"]), "--encrypt-values") })
	})
	testkit.Eventually(t, time.Minute, "the mirror says why", func() bool { return objdb.IsUnreadable(m.Unreadable()) })
	if want := map[string]string{watched + "a": "1", watched + "b": "1"}; !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
	values.Off.Store(true)
	testdb.Put(t, db, watched+"a", "3")
	testkit.Eventually(t, 20*time.Second, "it goes on when values are as they were", func() bool {
		return cmp.Equal(r.contents(), map[string]string{watched + "a": "3"})
	})
	testkit.Eventually(t, time.Minute, "nothing is to say any more", func() bool { return m.Unreadable() == nil })
}

// After an outage the content of a mirror is confirmed, not listed again. That it was unreadable then must end
// once it is readable.
func TestAMirrorThatCanReadAgainSaysSo(t *testing.T) {
	url := testetcd.New(t)
	way := testetcd.NewProxy(t, url)
	values := &testdb.Values{}
	testdb.Put(t, testdb.Open(t, objdb.Config{Endpoints: []string{url}, Values: values}), watched+"a", "1")
	r := &replica{t: t, state: map[string]string{}}
	m := New(testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, Values: values}), watched, r.deliver)
	testetcd.Run(t, func(ctx context.Context) { _ = m.Run(ctx) })
	testkit.Eventually(t, time.Minute, "mirror is in step", func() bool { return m.Synced() && m.Connected() })

	values.Lost.Store(true)
	way.Cut()
	testkit.Eventually(t, time.Minute, "the way is away", func() bool { return !m.Connected() })
	way.Mend()
	testkit.Eventually(t, time.Minute, "the mirror says why", func() bool { return objdb.IsUnreadable(m.Unreadable()) })
	if !m.Synced() {
		t.Error("it is not confirmed, but listed")
	}
	values.Lost.Store(false)
	testkit.Eventually(t, time.Minute, "nothing is to say any more", func() bool { return m.Unreadable() == nil })
}
