package embedded

import (
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/utils/fault"
)

// peerDial is how long a peer may take to accept a connection.
const peerDial = time.Second

// clusterState returns whether a member without data founds its cluster with the others, or joins an existing
// one in place of a member whose data was lost. It joins if it was added and has never been started: such a
// member has no name yet. A member with data has its cluster already.
//
// A member that was removed and not added again is refused: without its data it would act as the removed
// member, which the others ignore.
func (c Config) clusterState(peers map[string]string) (string, error) {
	switch {
	case HasData(c.Dir), c.Grows && len(peers) == 1:
		return embed.ClusterStateFlagNew, nil
	case c.Grows:
		return embed.ClusterStateFlagExisting, nil
	}
	others := maps.Clone(peers)
	delete(others, c.Name)
	transport, err := rafthttp.NewRoundTripper(c.tls(), peerDial)
	if err != nil {
		return "", fault.New(fault.Invalid, "embedded etcd: connections to peers: %w", err)
	}
	cluster, err := etcdserver.GetClusterFromRemotePeers(zap.NewNop(), slices.Sorted(maps.Values(others)), transport)
	switch { // no cluster exists yet, or no member answers
	case err != nil && len(others) > 0 && c.FoundingRefused != nil:
		return "", fault.New(fault.Unavailable, "embedded etcd: no peer of %q answers, and it founds no cluster: %v", c.Name, c.FoundingRefused)
	case err != nil:
		return embed.ClusterStateFlagNew, c.FoundingRefused
	}
	for _, m := range cluster.Members() {
		if !slices.Contains(m.PeerURLs, c.PeerURL) {
			continue
		}
		if m.Name == "" {
			return embed.ClusterStateFlagExisting, nil
		}
		return embed.ClusterStateFlagNew, nil
	}
	return "", fault.New(fault.Conflict, "embedded etcd: the cluster of the peers of %q has no member with the peer URL %s; "+
		"add it there first: etcdctl member add %s --peer-urls=%s", c.Name, c.PeerURL, c.Name, c.PeerURL)
}
