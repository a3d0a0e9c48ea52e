package embedded

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// The check that refuses founding a cluster does not apply to a member of an existing cluster, or to one that was
// added to it.
func TestAMemberThatMayNotFoundIsRefusedWhereThereIsNoCluster(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Name: "b", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Log: testkit.Quiet(), NoFsync: true}
	cfg.FoundingRefused = fault.New(fault.Invalid, "not here")
	if s, err := Start(t.Context(), cfg); err != cfg.FoundingRefused {
		t.Errorf("%v, %v", s, err)
	}
	for _, why := range []error{nil, cfg.FoundingRefused} { // the second time it has data
		cfg.FoundingRefused = why
		s, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestAMemberWithoutDataJoinsWhereItWasAdded(t *testing.T) {
	const own = "http://192.0.2.2:2380"
	for name, c := range map[string]struct {
		members string // answer of the other member; empty: it does not answer
		data    bool
		state   string
		refused string
	}{
		"nobody answers": {"", false, "new", ""},
		"it is founded":  {`[{"id":1,"name":"a","peerURLs":["OTHER"]},{"id":2,"name":"b","peerURLs":["` + own + `"]}]`, false, "new", ""},
		"it was added":   {`[{"id":1,"name":"a","peerURLs":["OTHER"]},{"id":3,"name":"","peerURLs":["` + own + `"]}]`, false, "existing", ""},
		"it was removed": {`[{"id":1,"name":"a","peerURLs":["OTHER"]}]`, false, "", "etcdctl member add b --peer-urls=" + own},
		"it has data":    {`[{"id":1,"name":"a","peerURLs":["OTHER"]}]`, true, "new", ""},
		"garbage":        {`garbage`, false, "new", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var other *httptest.Server
			other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/members" {
					t.Errorf("asked for %s", r.URL)
				}
				w.Header().Set("X-Etcd-Cluster-ID", "1a2b")
				_, _ = io.WriteString(w, strings.ReplaceAll(c.members, "OTHER", other.URL))
			}))
			if c.members == "" {
				other.Close()
			} else {
				defer other.Close()
			}
			cfg := Config{Dir: t.TempDir(), Name: "b", PeerURL: own}
			if c.data {
				if err := os.MkdirAll(filepath.Join(cfg.Dir, "member", "wal"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			state, err := cfg.clusterState(map[string]string{"a": other.URL, "b": own})
			if state != c.state || (err != nil) != (c.refused != "") {
				t.Fatalf("%q, %v; want %q, %q", state, err, c.state, c.refused)
			}
			if err != nil && (!fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%v; want %q", err, c.refused)
			}
		})
	}
}
