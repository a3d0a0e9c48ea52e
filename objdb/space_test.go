package objdb

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// The store works with two of three members, and these two report their space.
func TestAMemberThatIsDownDoesNotHideTheSpaceOfTheOthers(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, 0)
	db := open(t, Config{Endpoints: members[0].ClientURLs(), RequestTimeout: 2 * time.Second})
	testetcd.Stop(t, members[2])
	testkit.Eventually(t, time.Minute, "two members tell", func() bool {
		all, err := db.Space(t.Context())
		return err != nil && len(all) == 2
	})
}

// In Kubernetes, each netmaster reaches its own member at loopback, and all members report loopback URLs.
func TestAMemberIsNotTakenForOthersThatHaveItsURLOnTheirMachines(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, 0)
	for _, m := range members {
		own := open(t, Config{Endpoints: m.ClientURLs()})
		private := open(t, Config{Endpoints: []string{privately(t, own)}})
		all, err := private.Space(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		named, err := own.Space(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(named, func(s Space) bool { return s.URL == m.ClientURLs()[0] }); named[i].Member != all[0].Member {
			t.Errorf("the member of %s is told as %s", named[i].Member, all[0].Member)
		}
	}
}

// privately serves the requests of Space from a member, and reports the returned URL as that of all members.
func privately(t *testing.T, member *DB) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := member.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	url = "http://" + l.Addr().String()
	s := grpc.NewServer()
	etcdserverpb.RegisterClusterServer(s, listed{client: client, url: url})
	etcdserverpb.RegisterMaintenanceServer(s, asked{client: client, url: member.Endpoints()[0]})
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-served })
	return url
}

type listed struct {
	etcdserverpb.ClusterServer
	client *clientv3.Client
	url    string
}

func (l listed) MemberList(ctx context.Context, _ *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	all, err := l.client.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all.Members {
		m.ClientURLs = []string{l.url}
	}
	return (*etcdserverpb.MemberListResponse)(all), nil
}

type asked struct {
	etcdserverpb.MaintenanceServer
	client *clientv3.Client
	url    string
}

func (a asked) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	status, err := a.client.Status(ctx, a.url)
	return (*etcdserverpb.StatusResponse)(status), err
}
