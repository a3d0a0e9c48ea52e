// Package ports has the ports that the daemons, and what they work with, listen at unless they are told otherwise.
package ports

import "strconv"

const (
	Netmaster     = 9999  // REST of netmaster
	Agent         = 9090  // REST, health and metrics of netplugin
	EtcdClient    = 2379  // etcd for its clients
	EtcdPeer      = 2380  // and for its other members
	VXLAN         = 4789  // of IANA
	BGP           = 179   // RFC 4271
	KubeAPI       = 6443  // kube-apiserver
	Kubelet       = 10250 // kubelet
	ServiceHealth = 10256 // whether a node serves services; kube-proxy's
	ProxyMode     = 10249 // which proxy a node has; kube-proxy's
)

// At is an address with a port, host:port; host may be empty.
func At(host string, port int) string { return host + ":" + strconv.Itoa(port) }
