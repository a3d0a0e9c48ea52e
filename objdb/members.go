package objdb

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// members returns the members of the store, as it reports them.
func (db *DB) members(ctx context.Context) ([]*etcdserverpb.Member, error) {
	listed, err := Call(ctx, db, "list members", func(ctx context.Context, c *clientv3.Client) (*clientv3.MemberListResponse, error) {
		return c.MemberList(ctx)
	})
	if err != nil {
		return nil, err
	}
	return listed.Members, nil
}

// MemberURLs returns the URLs at which the members of the store listen, for clients and for each other, as they
// report them.
func (db *DB) MemberURLs(ctx context.Context) (urls []string, err error) {
	members, err := db.members(ctx)
	for _, m := range members {
		urls = slices.Concat(urls, m.ClientURLs, m.PeerURLs)
	}
	return urls, err
}

// ExposedURLs returns the plain URLs, sorted, at which other machines can reach the store: among those that its
// members report, and those of the configuration.
func (db *DB) ExposedURLs(ctx context.Context) ([]string, error) {
	urls, err := db.MemberURLs(ctx)
	if err != nil {
		return nil, err
	}
	urls = slices.DeleteFunc(slices.Concat(urls, db.Endpoints()), func(u string) bool { return !inet.IsExposed(u) })
	slices.Sort(urls)
	return slices.Compact(urls), nil
}

// Silent returns the endpoints of the client that do not serve, as they do not answer or have no quorum. The client goes
// on with the others, and reports no error. It takes 3 s where one does not answer, less if ctx ends before: then the slow
// ones are among them.
func (db *DB) Silent(ctx context.Context) (urls []string, err error) {
	all := db.Endpoints()
	for i, err := range db.serving.askEach(ctx, all) {
		if err != nil {
			urls = append(urls, all[i])
		}
	}
	return urls, ctx.Err()
}

// Learners returns the members without a vote: while there are some, the store survives the loss of fewer
// members than intended. A member that has never been started has no name, and is returned by its peer URL.
func (db *DB) Learners(ctx context.Context) (names []string, err error) {
	members, err := db.members(ctx)
	for _, m := range members {
		if m.IsLearner {
			names = append(names, cmp.Or(m.Name, strings.Join(m.PeerURLs, ", ")))
		}
	}
	return names, err
}

// AddMember adds a member at a peer URL, which receives the data and has no vote before PromoteMembers. It
// returns the peer URLs of all members by name, for embedded.Config.Peers. A repetition changes nothing. It
// returns fault.Conflict for a member that has been started before: after losing its data it would have
// forgotten what it has promised.
func (db *DB) AddMember(ctx context.Context, name, peerURL string) (map[string]string, error) {
	members, err := db.members(ctx)
	if err != nil {
		return nil, err
	}
	known := func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, peerURL) }
	for _, m := range members {
		if m.Name == name || m.Name != "" && known(m) {
			return nil, fault.New(fault.Conflict, "the store has had data of member %q at %v: once that is lost, remove the member, as etcdctl member remove %x does, and have it added again",
				m.Name, m.PeerURLs, m.ID)
		}
	}
	if err := inReach(members, peerURL); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(members, known) {
		added, err := Call(ctx, db, "add member "+peerURL, func(ctx context.Context, c *clientv3.Client) (*clientv3.MemberAddResponse, error) {
			return c.MemberAddAsLearner(ctx, []string{peerURL})
		})
		if err != nil {
			return nil, err
		}
		members = added.Members
	}
	all := map[string]string{}
	for _, m := range members {
		switch {
		case known(m):
			all[name] = peerURL
		case m.Name == "": // never started: known only by its URL
			all[m.PeerURLs[0]] = m.PeerURLs[0]
		default:
			all[m.Name] = m.PeerURLs[0]
		}
	}
	return all, nil
}

// inReach refuses a member on another machine if a member listens at loopback: the two could not connect.
func inReach(members []*etcdserverpb.Member, peerURL string) error {
	if isLoopback(peerURL) {
		return nil
	}
	for _, m := range members {
		if len(m.PeerURLs) > 0 && !slices.ContainsFunc(m.PeerURLs, func(u string) bool { return !isLoopback(u) }) {
			return fault.New(fault.Conflict, "member %q of the store listens at %s, where no other machine reaches it: start its netmaster with an address of its machine there first (--embedded-etcd-peer-url)",
				m.Name, strings.Join(m.PeerURLs, ", "))
		}
	}
	return nil
}

func isLoopback(text string) bool {
	u, err := url.Parse(text)
	return err == nil && inet.IsLoopbackHost(u.Hostname())
}

// PromoteMembers gives a vote to added members that have caught up; waiting reports whether others have not.
func (db *DB) PromoteMembers(ctx context.Context) (waiting bool, err error) {
	members, err := db.members(ctx)
	if err != nil {
		return false, err
	}
	for _, m := range members {
		if !m.IsLearner {
			continue
		}
		if m.Name == "" { // never started
			waiting = true
			continue
		}
		_, err := Call(ctx, db, "promote member "+m.Name, func(ctx context.Context, c *clientv3.Client) (*clientv3.MemberPromoteResponse, error) {
			return c.MemberPromote(ctx, m.ID)
		})
		switch {
		case err == nil:
			db.log.WithField("member", m.Name).Info("the store has another member")
		case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
			waiting = true
		default:
			return true, err
		}
	}
	return waiting, nil
}
