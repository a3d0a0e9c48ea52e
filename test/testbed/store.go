package testbed

import (
	"fmt"
	"path/filepath"

	"github.com/contiv/netplugin/utils/tlsfiles"
)

// The store members embedded in netmasters use TLS in a secure bed, and accept only clients with a certificate of
// a netmaster. Tests that access the store directly use the certificate of the node's own netmaster.

// storeScheme returns the URL scheme of the store members.
func (b *Bed) storeScheme() string {
	if !b.secure {
		return "http"
	}
	return "https"
}

// StoreURL returns the client URL of the node's store member.
func (n *Node) StoreURL() string { return n.bed.storeScheme() + "://" + n.At(2379) }

// peerURL returns its URL for the other members.
func (n *Node) peerURL() string { return n.bed.storeScheme() + "://" + n.At(2380) }

// StoreFiles returns the TLS files of a store client on the node; the zero value without TLS.
func (n *Node) StoreFiles() tlsfiles.Files {
	if !n.bed.secure {
		return tlsfiles.Files{}
	}
	dir := "/var/lib/contiv/pki"
	if n.bed.confined {
		dir = "/var/lib/contiv/netmaster/pki"
	}
	return tlsfiles.Files{CA: filepath.Join(dir, "store-ca.crt"), Cert: filepath.Join(dir, "store.crt"), Key: filepath.Join(dir, "store.key")}
}

// StoreFilesOutside returns the same files for a process that is not on the node.
func (n *Node) StoreFilesOutside() tlsfiles.Files {
	files := n.StoreFiles()
	for _, path := range []*string{&files.CA, &files.Cert, &files.Key} {
		if *path != "" {
			*path = filepath.Join(fmt.Sprintf("/proc/%d/root", n.pid), *path)
		}
	}
	return files
}
