package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/daemonflags"
)

// alonePeer is the default peer address of a member.
const alonePeer = "127.0.0.1:2380"

// member returns the configuration of the embedded etcd; nil without one.
func (o *options) member() (*embedded.Config, []error) {
	if o.embeddedDir == "" {
		return nil, nil
	}
	var found []error
	if o.embeddedName == "" || strings.ContainsAny(o.embeddedName, "=,") {
		found = append(found, fmt.Errorf("--embedded-etcd-name %q: want a name without '=' and ','", o.embeddedName))
	}
	peers := map[string]string{}
	schemes := []string{scheme(o.embeddedClientURL)}
	for _, item := range daemonflags.List(o.embeddedPeers) {
		name, url, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			found = append(found, fmt.Errorf("--embedded-etcd-peers %q: want name=URL", item))
			continue
		}
		if err := daemonflags.CheckURL(url); err != nil {
			found = append(found, fmt.Errorf("--embedded-etcd-peers: %w", err))
		}
		peers[name], schemes = url, append(schemes, scheme(url))
	}
	peerURL := cmp.Or(o.embeddedPeerURL, peers[o.embeddedName], schemes[0]+"://"+alonePeer)
	for flag, url := range map[string]string{"client": o.embeddedClientURL, "peer": peerURL} {
		if err := daemonflags.CheckURL(url); err != nil {
			found = append(found, fmt.Errorf("--embedded-etcd-%s-url: %w", flag, err))
		}
	}
	if _, named := peers[o.embeddedName]; len(peers) > 0 && !named {
		found = append(found, fmt.Errorf("--embedded-etcd-peers: has no member %q, which --embedded-etcd-name says this is", o.embeddedName))
	}
	if schemes = append(schemes[1:], scheme(peerURL)); slices.Contains(schemes, "https") && slices.Contains(schemes, "http") {
		found = append(found, fmt.Errorf("--embedded-etcd-peer-url %q, --embedded-etcd-peers %q: want either https or http", peerURL, o.embeddedPeers))
	} else if scheme(o.embeddedClientURL) == "https" && schemes[0] == "http" {
		found = append(found, fmt.Errorf("--embedded-etcd-client-url %q: wants a peer URL with https, too", o.embeddedClientURL))
	}
	return &embedded.Config{
		Dir: o.embeddedDir, Name: o.embeddedName, ClientURL: o.embeddedClientURL, PeerURL: peerURL, Peers: peers,
		NoFsync: o.embeddedNoFsync, Log: logrus.WithField("component", "etcd"),
	}, found
}

func scheme(url string) string {
	name, _, _ := strings.Cut(url, "://")
	return name
}

// enters sets how a member with TLS joins its cluster: through the netmasters on the hosts of the other members,
// unless others are given. The first member that the flag names founds the cluster.
func (o *options) enters(member *embedded.Config, s *daemon.Security) []error {
	if member == nil || scheme(member.PeerURL) != "https" {
		return nil
	}
	_, port, _ := net.SplitHostPort(o.internal)
	named := len(s.Join) > 0
	for i, item := range daemonflags.List(o.embeddedPeers) {
		name, at, _ := strings.Cut(item, "=")
		peer, err := url.Parse(at)
		switch {
		case err != nil:
		case name == o.embeddedName:
			s.Founder = i == 0
		case !named:
			s.Join = append(s.Join, net.JoinHostPort(peer.Hostname(), port))
		}
	}
	if s.TokenFile != "" && len(s.Join) == 0 {
		return []error{fmt.Errorf("--join-token-file, with --embedded-etcd-peer-url %q: want the netmasters to ask, by --join or --embedded-etcd-peers", member.PeerURL)}
	}
	return nil
}
