// Package ports has the default ports of the daemons, and of the programs that they work with.
package ports

import "strconv"

const (
	Netmaster     = 9999  // REST of netmaster
	Agent         = 9090  // REST, health and metrics of netplugin
	EtcdClient    = 2379  // etcd, for clients
	EtcdPeer      = 2380  // etcd, for other members
	VXLAN         = 4789  // assigned by IANA
	BGP           = 179   // RFC 4271
	KubeAPI       = 6443  // kube-apiserver
	Kubelet       = 10250 // kubelet
	ServiceHealth = 10256 // health of a node's services, as of kube-proxy
	ProxyMode     = 10249 // proxy mode of a node, as of kube-proxy
)

// At returns host:port; host may be empty.
func At(host string, port int) string { return host + ":" + strconv.Itoa(port) }
