package objdb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// A member of an etcd of one's own is replaced by one that is a learner until it has caught up. It refuses what it is
// asked; the others are asked then.
func TestALearnerAmongTheEndpointsHoldsNothingUp(t *testing.T) {
	voter := testetcd.NewProcess(t)
	db := open(t, Config{Endpoints: []string{voter.URL}})
	urls, err := db.MemberURLs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ofVoter := urls[0]
	if ofVoter == voter.URL {
		ofVoter = urls[1]
	}
	peer := testkit.FreeURL()
	if _, err := Call(t.Context(), db, "add a learner", func(ctx context.Context, c *clientv3.Client) (*clientv3.MemberAddResponse, error) {
		return c.MemberAddAsLearner(ctx, []string{peer})
	}); err != nil {
		t.Fatal(err)
	}
	learner := testetcd.NewProcess(t, "--name=b", "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		fmt.Sprintf("--initial-cluster=a=%s,b=%s", ofVoter, peer), "--initial-cluster-state=existing")
	at := open(t, Config{Endpoints: []string{learner.URL}, RequestTimeout: time.Second})
	if err := at.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "learner") {
		t.Fatalf("the learner alone: %v", err)
	}

	both := open(t, Config{Endpoints: []string{voter.URL, learner.URL}})
	for i := range 20 { // either endpoint is used in turn
		put(t, both, "/x/a", fmt.Sprint(i))
		if err := both.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	term, err := both.Campaign(t.Context(), CampaignConfig{Lock: "x", Value: "a:1", TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	select { // it is renewed, too
	case <-term.Context().Done():
		t.Errorf("the lease of the term is not renewed: %v", term.Ended())
	case <-time.After(5 * time.Second):
	}
	resign(t, term)
}
