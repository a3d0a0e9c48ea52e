package space

import "testing"

// An etcd before 3.6 does not report its quota: only its alarm shows that it is full.
func TestAFullStoreThatDoesNotTellItsQuotaIsSaidToHaveNone(t *testing.T) {
	t.Parallel()
	k := New(Config{})
	k.seen = Usage{Size: 24 << 20, InUse: 17 << 20, Full: true}
	const want = "the store is full: its file has 24 MiB, of which 17 MiB are in use; nothing can be added, deletions are possible"
	if err := k.Admit(); err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
